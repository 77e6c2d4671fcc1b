"""Rules about the kernels that run: their precision, their layout, attention written out, convolutions chosen by guess."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.gpu.records import GpuEvidence, KernelWindow, Operation
from ownlab.instruments.why.gpu.rooflines import CONVOLUTIONS, REACHED, CardRates, flops_of, is_half, is_product
from ownlab.instruments.why.records import Change, Finding, Place
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["ConvolutionChoice", "DoublePrecision", "FullPrecision", "Layout", "UnfusedAttention"]

_CONVERTS = ("nchwToNhwc", "nhwcToNchw", "NchwToNhwc", "NhwcToNchw")
# What 16 bits save of kernels that only move data: half of the bytes, less the conversions.
_ELEMENTWISE_SAVING = 0.2
# Half of the bytes: what float32 saves of kernels that only move values of 64 bits.
_DOUBLE_SAVING = 0.5
_DOUBLES = ("double", "c10::complex<double>")
# What batch normalisation of 16 bits saves in channels last (ResNet-50 on an H200: 46 ms of a step become 18).
_NORMS_SAVE = 0.6
# Attention in one kernel reaches this share of the rate of tensor cores, forward and backward together.
_ATTENTION_REACHED = 0.35
_SHORTEST_SEQUENCE = 64


class _Measured(NamedTuple):
    """What these rules look at."""

    model: StepModel
    evidence: GpuEvidence
    window: KernelWindow
    rates: CardRates

    def ms(self, operations: Iterable[Operation]) -> float:
        """Their time in a step."""
        return sum(each.us for each in operations) / 1e3 / self.window.steps


def _measured(case: Case) -> _Measured | None:
    model, evidence = case.model, case.model.process.gpu
    if model.gpu is None or evidence is None or evidence.window is None:
        return None
    return _Measured(model, evidence, evidence.window, CardRates(evidence))


def _loop(model: StepModel) -> Place | None:
    return next((call.where for call in model.calls("backward") if call.where is not None), None)


def _before_loop(case: Case, line: str) -> Change | None:
    """A line before the one that makes the optimizer, which is before the loop."""
    where = next((each.where for each in case.model.process.optimizers if each.where is not None), None)
    return case.code.replaced(where, f"{line}\n{{line}}")


def _longest(operations: Sequence[Operation], measured: _Measured) -> list[str]:
    """The operators that take longest."""
    sums: dict[str, list[Operation]] = {}
    for each in operations:
        sums.setdefault(each.op, []).append(each)
    ordered = sorted(sums.items(), key=lambda item: -sum(each.us for each in item[1]))
    return [
        text(
            "{op} takes {time} of a step; its longest kernel is {kernel}",
            op=op,
            time=format_ms(measured.ms(each)),
            kernel=max(each, key=lambda one: one.us).kernel,
        )
        for op, each in ordered[:2]
    ]


class FullPrecision(Rule):
    """Large products are computed in float32, although the card is many times faster with fewer bits.

    **Why it matters.** Tensor cores do not compute in float32. In TF32 they are some 7 times as fast as the other units in float32, in
    bfloat16 some 15 times; and values of 16 bits take half the memory and the bandwidth.

    **What to do.** Put the forward pass and the loss under `torch.autocast("cuda", dtype=torch.bfloat16)`: parameters stay in float32, and
    no GradScaler is needed. Or allow TF32 for products of float32, which is one line: `torch.set_float32_matmul_precision("high")`.

    **Sources.** The types and shapes of the operators in the profiler's window, the time of their kernels, and the card's rates in the
    catalogue. The band reaches from autocast to TF32 alone.
    """

    code = "full-precision"
    title = text("Large products are computed in float32")

    def check(self, case: Case) -> Iterable[Finding]:
        """Add up products of float32, and what they would take in TF32 and bfloat16."""
        measured = _measured(case)
        if measured is None:
            return
        full = [
            each
            for each in measured.window.operations
            if is_product(each) and "float" in each.types and not is_half(each)
        ]
        slow = [each for each in full if not _in_tf32(each, measured)]
        product_ms, slow_ms = measured.ms(full), measured.ms(slow)
        others = measured.model.gpu.busy_ms - product_ms if measured.model.gpu is not None else 0.0
        in_tf32 = slow_ms - _faster_ms(slow, measured, "tf32")
        in_bf16 = product_ms - _faster_ms(full, measured, "bf16") + others * _ELEMENTWISE_SAVING
        best, worst = measured.model.with_less_gpu(in_bf16), measured.model.with_less_gpu(in_tf32)
        cost = measured.model.step_ms - best
        if cost < LOWEST_SHARE * measured.model.step_ms or product_ms < 2 * LOWEST_SHARE * measured.model.step_ms:
            return
        tf32 = text('Or allow TF32: torch.set_float32_matmul_precision("high")')
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{time} of each step are products of float32{how}.",
                time=format_ms(product_ms),
                how=text(" without tensor cores") if slow_ms > 0.5 * product_ms else text(" in TF32"),
            ),
            evidence=[
                *_longest(full, measured),
                text(
                    "float32 matmul precision is \"{precision}\"; cuDNN {allows} TF32",
                    precision=measured.evidence.settings.matmul_precision,
                    allows=text("allows") if measured.evidence.settings.cudnn_tf32 else text("does not allow"),
                ),
            ],
            meaning=text("The card's tensor cores compute the same many times faster with fewer bits."),
            advice=[
                text('Put the forward pass and the loss under torch.autocast("cuda", dtype=torch.bfloat16).'),
                *([tf32] if slow_ms > 0.2 * product_ms else []),
            ],
            where=_loop(measured.model),
            change=_before_loop(case, 'torch.set_float32_matmul_precision("high")') if slow_ms > 0.2 * product_ms else None,
            after=(best, worst if slow_ms > 0.2 * product_ms else best),
        )  # fmt: skip


class DoublePrecision(Rule):
    """The model computes in float64.

    **Why it matters.** A card computes float64 at a half to a sixty-fourth of the rate of float32, and without TF32 or autocast, which leave
    float64 as it is. It moves twice the bytes, too. It mostly comes in by NumPy, whose arrays are float64, or by `torch.set_default_dtype`.

    **What to do.** Convert data where it becomes a tensor: `torch.from_numpy(array).float()`, `torch.tensor(values, dtype=torch.float32)`. Leave
    the default type at `torch.float32`, and convert only what a solver needs in float64. `model.float()` converts a model.

    **Sources.** The types and shapes of the operators in the profiler's window, the time of their kernels, and the card's rates in the
    catalogue. The prediction is for float32, with TF32 where the script allows it.
    """

    code = "double-precision"
    title = text("The model computes in float64")

    def check(self, case: Case) -> Iterable[Finding]:
        """Add up kernels of float64, and what they would take in float32."""
        measured = _measured(case)
        if measured is None:
            return
        parameters = measured.evidence.model.parameters
        mostly = parameters.get("float64", 0) > sum(parameters.values()) / 2
        double = [
            each
            for each in measured.window.operations
            if any(kind in _DOUBLES for kind in each.types)
            or (mostly and each.phase == "optimizer" and "TensorList" in each.types)
        ]
        products = [each for each in double if is_product(each)]
        saved = sum(_saved_of_double(each, measured) for each in double) / 1e3 / measured.window.steps
        after = measured.model.with_less_gpu(saved)
        cost = measured.model.step_ms - after
        if not double or cost < LOWEST_SHARE * measured.model.step_ms:
            return
        default = next((mode for mode in case.model.process.modes if mode.name == "float64"), None)
        share = text(
            "{count} of {all} parameters are float64",
            count=f"{parameters.get('float64', 0):,}",
            all=f"{sum(parameters.values()):,}",
        )
        advice = [
            text(
                "Make tensors of float32: torch.from_numpy(array).float(), torch.tensor(values, dtype=torch.float32)."
            ),
            text("Convert the model with model.float(), and keep float64 for what needs it."),
        ]
        if default is not None:
            advice.insert(
                0, text("Leave the default type as it is, float32: remove torch.set_default_dtype(torch.float64).")
            )
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text("{time} of each step compute in float64.", time=format_ms(measured.ms(double))),
            evidence=[
                *([text("products of float64 take {time} of a step", time=format_ms(measured.ms(products)))] if products else []),
                *_longest(double, measured),
                *([share] if parameters.get("float64") else []),
            ],
            meaning=text("Tensor cores, TF32 and autocast are for float32 and less; float64 takes many times as long."),
            advice=advice,
            where=(default.where if default is not None else None) or _loop(measured.model),
            change=case.code.without_line(default.where) if default is not None else None,
            after=measured.model.band(after),
        )  # fmt: skip


def _saved_of_double(operation: Operation, measured: _Measured) -> float:
    """The microseconds that an operator's kernels would take less in float32."""
    if not is_product(operation):
        return operation.us * _DOUBLE_SAVING
    rate, computed = measured.rates.tflops("tf32" if _in_tf32(operation, measured) else "fp32"), flops_of(operation)
    if not rate or not computed:
        return operation.us * _DOUBLE_SAVING
    return max(0.0, operation.us - computed * operation.count / (rate * 1e12 * REACHED) * 1e6)


def _in_tf32(operation: Operation, measured: _Measured) -> bool:
    settings = measured.evidence.settings
    return settings.cudnn_tf32 if operation.op in CONVOLUTIONS else settings.matmul_tf32


def _faster_ms(operations: Iterable[Operation], measured: _Measured, kind: str) -> float:
    """The time of products in another precision."""
    total = 0.0
    for each in operations:
        old = "tf32" if _in_tf32(each, measured) else "fp32"
        total += each.us / measured.rates.faster(old, kind)
    return total / 1e3 / measured.window.steps


class Layout(Rule):
    """Convolutions of 16 bits run on images in NCHW.

    **Why it matters.** The convolutions of tensor cores work on channels last (NHWC). For a model in NCHW cuDNN converts the input and the
    output of each of them, and normalisation and activations run in their slower variants.

    **What to do.** `model = model.to(memory_format=torch.channels_last)`, and the same for each batch of images.

    **Sources.** Kernels that convert between the layouts, in the profiler's window, and the layout of the weights.
    """

    code = "layout"
    title = text("Convolutions run in NCHW")

    def check(self, case: Case) -> Iterable[Finding]:
        """Add up the conversions."""
        measured = _measured(case)
        if measured is None or measured.evidence.model.channels_last or not measured.evidence.model.convolutions:
            return
        convolutions = [each for each in measured.window.operations if each.op in CONVOLUTIONS]
        converts = [each for each in convolutions if any(name in each.kernel for name in _CONVERTS)]
        norms = [each for each in measured.window.operations if "batch_norm" in each.op]
        saved = measured.ms(converts) + _NORMS_SAVE * measured.ms(norms)
        after = measured.model.with_less_gpu(saved)
        cost = measured.model.step_ms - after
        if not converts or cost < LOWEST_SHARE * measured.model.step_ms:
            return
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{time} of each step convert the inputs and outputs of convolutions between NCHW and NHWC.",
                time=format_ms(measured.ms(converts)),
            ),
            evidence=[
                text("{count} convolutions, with weights in NCHW", count=measured.evidence.model.convolutions),
                text("the kernel {kernel}", kernel=max(converts, key=lambda each: each.us).kernel),
            ],
            meaning=text("The model is in NCHW, and its convolutions work in NHWC."),
            advice=[
                text("Use channels last: model.to(memory_format=torch.channels_last), and the same for each batch.")
            ],
            where=_loop(measured.model),
            after=measured.model.band(after),
        )


class UnfusedAttention(Rule):
    """Attention is written out, so that the scores of all pairs of words are stored and read again.

    **Why it matters.** Scores, mask, softmax and dropout each read and write a matrix of (sequence length)² for each head. In one kernel
    that matrix never leaves the processor.

    **What to do.** Call `torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)`; with transformers
    `attn_implementation="sdpa"`.

    **Sources.** Softmax over square matrices in the profiler's window, and all operators on tensors of that shape, against the
    arithmetic of the same attention.
    """

    code = "unfused-attention"
    title = text("Attention is not fused")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for tensors of (length, length) that a softmax has made."""
        measured = _measured(case)
        if measured is None:
            return
        squares = {
            shape[-1]
            for each in measured.window.operations
            if "softmax" in each.op
            for shape in each.shapes[:1]
            if len(shape) in (3, 4) and shape[-1] == shape[-2] >= _SHORTEST_SEQUENCE
        }
        written = [each for each in measured.window.operations if _has_scores(each, squares)]
        if not written:
            return
        products = [each for each in written if is_product(each)]
        rate = measured.rates.tflops("bf16" if any(is_half(each) for each in products) else "tf32")
        computed = sum(flops_of(each) * each.count for each in products)
        fused = computed / (rate * 1e12 * _ATTENTION_REACHED) * 1e3 / measured.window.steps if rate else 0.0
        now = measured.ms(written)
        # A mask that is the same for all usually hides the words that follow: half of the pairs need not be computed.
        least = fused / 2 if any(_is_mask(shape) for each in written for shape in each.shapes) else fused
        worst, best = (measured.model.with_less_gpu(max(0.0, now - ms)) for ms in (fused, least))
        cost = measured.model.step_ms - (best + worst) / 2
        if cost < LOWEST_SHARE * measured.model.step_ms:
            return
        length = max(squares)
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{now} of each step compute attention with matrices of {length} × {length} in memory; fused about {fused}.",
                now=format_ms(now),
                length=length,
                fused=format_ms(fused),
            ),
            evidence=_longest(written, measured),
            meaning=text("Each operator reads and writes the scores of all pairs: {share} of the step.", share=format_share(now / measured.model.step_ms)),
            advice=[
                text("Call torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=…)."),
                text('With transformers: from_pretrained(…, attn_implementation="sdpa")'),
            ],
            where=_loop(measured.model),
            after=(measured.model.band(best)[0], measured.model.band(worst)[1]),
        )  # fmt: skip


def _is_mask(shape: tuple[int, ...]) -> bool:
    """Whether a tensor has one matrix of pairs for all samples and heads."""
    return len(shape) >= 2 and shape[-1] == shape[-2] >= _SHORTEST_SEQUENCE and all(size == 1 for size in shape[:-2])


def _has_scores(operation: Operation, lengths: set[int]) -> bool:
    """Whether an operator reads the scores, or is the product that makes them."""
    if any(_is_score(shape, lengths) for shape in operation.shapes):
        return True
    shapes = [shape for shape in operation.shapes if len(shape) == 3]
    product = operation.op in ("aten::bmm", "aten::baddbmm") and len(shapes) >= 2
    return product and _is_score((*shapes[-2][:2], shapes[-1][2]), lengths)


def _is_score(shape: tuple[int, ...], lengths: set[int]) -> bool:
    return len(shape) in (3, 4) and shape[-1] == shape[-2] and shape[-1] in lengths


class ConvolutionChoice(Rule):
    """cuDNN chooses the algorithms of convolutions by a guess, and the guess is bad for these shapes.

    **Why it matters.** For each convolution there are dozens of kernels. By default cuDNN takes one by rules of thumb, which fail for unusual
    shapes; in its benchmark mode it tries them once for each shape and keeps the fastest.

    **What to do.** `torch.backends.cudnn.benchmark = True` before the loop, if batches have the same shape; pad or crop them otherwise.

    **Sources.** The setting, the shapes of convolutions in the profiler's window, and how far their kernels are from the card's rate. What
    trying others saves is not known before: `--try` measures it.
    """

    code = "cudnn-benchmark"
    title = text("cuDNN's choice of convolutions was not measured")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for convolutions that are far from what the card can do."""
        measured = _measured(case)
        if (
            measured is None
            or measured.evidence.settings.cudnn_benchmark
            or measured.evidence.settings.cudnn_deterministic
        ):
            return
        slow = [
            each
            for each in measured.window.operations
            if each.op in CONVOLUTIONS and _efficiency(each, measured) < _POOR
        ]
        time = measured.ms(slow)
        if time < 0.25 * measured.model.step_ms:
            return
        after = measured.model.with_less_gpu(time * _CHOICE_SAVES)
        yield self.finding(
            case,
            cost_ms=measured.model.step_ms - after,
            headline=text(
                "{time} of each step are convolutions whose kernels are far from what the card can do.",
                time=format_ms(time),
            ),
            evidence=[text("torch.backends.cudnn.benchmark is False"), *_longest(slow, measured)],
            meaning=text("cuDNN has chosen these kernels by a rule of thumb, without trying others."),
            advice=[text("Set torch.backends.cudnn.benchmark = True before the loop, if all batches have one shape.")],
            where=_loop(measured.model),
            change=_before_loop(case, "torch.backends.cudnn.benchmark = True"),
            after=(after, measured.model.step_ms * 0.98),
        )  # fmt: skip


# Convolutions below this share of the card's rate are slow, and what trying others saves of them, as measured on an H200.
_POOR = 0.08
_CHOICE_SAVES = 0.5


def _efficiency(operation: Operation, measured: _Measured) -> float:
    kind = "bf16" if is_half(operation) else "tf32" if _in_tf32(operation, measured) else "fp32"
    rate, computed = measured.rates.tflops(kind), flops_of(operation)
    if not rate or not computed or not operation.us:
        return 1.0
    return computed * operation.count / (operation.us / 1e6) / (rate * 1e12)
