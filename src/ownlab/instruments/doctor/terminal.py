"""The doctor's answer in the terminal: the verdict first, then findings, then the machine in brief."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from ownlab.instruments.doctor.records import Diagnosis, Finding, ProductCheck
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.terminal import show_brief
from ownlab.render.console import labelled

__all__ = ["show_diagnosis", "show_page", "show_rules"]

_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "cyan")}
_LABEL_WIDTH = 9
_PAGE_WIDTH = 100
# "Or, without a new driver: pip install …"
_COMMAND_WITHIN = re.compile(r": (?:sudo|pip|export|docker|podman|[A-Z_]+=\S+) ")
_VERDICTS = {"yes": "bold green", "no": "bold red", "unknown": "bold yellow"}


def show_diagnosis(diagnosis: Diagnosis, out: Console, *, verified: bool = False) -> None:
    """Print a whole diagnosis."""
    verdict = diagnosis.verdict
    calm = verdict.gpu_work == "no" and not any(finding.blocks for finding in diagnosis.findings)
    out.print(Text(verdict.sentence, style="bold" if calm else _VERDICTS[verdict.gpu_work]))
    if diagnosis.recognised:
        out.print(Text(f"Read from the paste: {', '.join(diagnosis.recognised)}.", style="dim"))
    for finding in diagnosis.findings:
        out.print()
        _show_finding(finding, out)
    if verified:
        out.print()
        _show_checks(diagnosis.checks, out)
    out.print()
    show_brief(diagnosis.machine, out)
    for what in diagnosis.missing:
        out.print(Text(f"For a fuller answer, paste also {what}.", style="dim"))
    if diagnosis.findings:
        out.print(Text(f"More on a finding: ownlab doctor --explain {diagnosis.findings[0].code}", style="dim"))


def _show_finding(finding: Finding, out: Console) -> None:
    mark, style = _MARKS[finding.severity]
    severity = (f"{mark} {finding.severity:9}", style)
    out.print(Text.assemble(severity, (finding.title, "bold"), (f"  [{finding.code}]", "dim")))
    for number, seen in enumerate(finding.evidence):
        labelled(out, "seen" if number == 0 else "", seen, width=_LABEL_WIDTH)
    labelled(out, "means", finding.meaning, width=_LABEL_WIDTH)
    for number, step in enumerate(finding.fix):
        labelled(out, "mend" if number == 0 else "", step, width=_LABEL_WIDTH, wrapped=not _is_command(step))


def _is_command(step: str) -> bool:
    """Whether this is to be copied into a shell: then it stays one line, however long. Sentences begin with a capital."""
    first = step.split(maxsplit=1)[0]
    return "=" in first or "/" in first or first.islower() or _COMMAND_WITHIN.search(step) is not None


def _show_checks(checks: tuple[ProductCheck, ...], out: Console) -> None:
    if not checks:
        out.print("Nothing to verify: no framework here sees an accelerator.")
        return
    out.print(Text("Products compared with the CPU's", style="bold"))
    for check in checks:
        words = "right" if check.passed else "WRONG" if check.wrong else "failed"
        detail = (
            check.error
            or f"largest error {check.largest_error:.1e}, allowed {check.tolerance:.1e}, ran on {check.ran_on}"
        )
        style = "green" if check.passed else "bold red"
        out.print(
            Text.assemble(
                "  ", (words, style), f"  {check.framework} {check.dtype} on {check.device} ({check.name}): {detail}"
            )
        )


def show_page(rule: type[Rule], out: Console) -> None:
    """The page of one rule."""
    from rich.markdown import Markdown  # only pages need it, and every diagnosis would wait for it

    out.print(Text.assemble((rule.code, "bold"), f"  {rule.title}", (f"  ({rule.severity})", "dim")))
    out.print()
    # Rich pads every line of Markdown to its width, which in a pipe is meant to be endless.
    page = Console(
        file=io.StringIO(), width=min(out.width, _PAGE_WIDTH), force_terminal=out.is_terminal, no_color=out.no_color
    )
    with page.capture() as captured:
        page.print(Markdown(rule.page()))
    out.print(Text.from_ansi("\n".join(line.rstrip() for line in captured.get().splitlines())), soft_wrap=True)


def show_rules(rules: Iterable[type[Rule]], out: Console) -> None:
    """All rules, one line each."""
    listed = list(rules)
    width = max(len(rule.code) for rule in listed) + 2
    for rule in listed:
        mark, style = _MARKS[rule.severity]
        out.print(Text.assemble((rule.code.ljust(width), "bold"), (f"{mark} {rule.severity:9}", style), rule.title))
