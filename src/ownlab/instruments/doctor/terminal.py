"""The diagnosis in the terminal: the verdict first, then the findings, then a summary of the machine; rule pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from ownlab.instruments.doctor.records import Diagnosis, Finding, ProductCheck
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.terminal import show_brief
from ownlab.render.console import hanging, labelled, show_page
from ownlab.render.wide_text import align_left
from ownlab.text import in_english, listing, text

__all__ = ["show_diagnosis", "show_explain_hint", "show_finding", "show_rule_list", "show_rule_page"]

_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "cyan")}
_SEVERITIES = {"error": text("error"), "warning": text("warning"), "note": text("note")}
_LABEL_WIDTH = 9
# "Or, without a new driver: pip install …"
_COMMAND_WITHIN = re.compile(r": (?:sudo|pip|export|docker|podman|[A-Z_]+=\S+) ")
_VERDICT_STYLES = {"yes": "bold green", "no": "bold red", "unknown": "bold yellow"}


def show_diagnosis(diagnosis: Diagnosis, out: Console, *, verified: bool = False) -> None:
    """Print a diagnosis."""
    verdict = diagnosis.verdict
    no_problem = verdict.gpu_work == "no" and not any(finding.blocks for finding in diagnosis.findings)
    out.print(Text(verdict.sentence, style="bold" if no_problem else _VERDICT_STYLES[verdict.gpu_work]))
    if diagnosis.recognised:
        kinds = listing(diagnosis.recognised, "{items}, {last}")
        out.print(Text(text("Recognised in the pasted text: {kinds}.", kinds=kinds), style="dim"))
    for finding in diagnosis.findings:
        out.print()
        show_finding(finding, out)
    if verified:
        out.print()
        _show_checks(diagnosis.checks, out)
    out.print()
    show_brief(diagnosis.machine, out)
    for source in diagnosis.missing:
        out.print(Text(text("For a more complete diagnosis, also paste {source}.", source=source), style="dim"))
    if diagnosis.findings:
        show_explain_hint(diagnosis.findings[0].code, out)


def show_explain_hint(code: str, out: Console) -> None:
    """Say how the page of a rule is shown."""
    out.print(Text(text("Explain a finding: ownlab doctor --explain {code}", code=code), style="dim"))


def show_finding(finding: Finding, out: Console) -> None:
    """Print one finding with its evidence, its meaning and its fix."""
    mark, style = _MARKS[finding.severity]
    severity = (f"{mark} {align_left(_SEVERITIES[finding.severity], 9)}", style)
    out.print(Text.assemble(severity, (finding.title, "bold"), (f"  [{finding.code}]", "dim")))
    for number, line in enumerate(finding.evidence):
        labelled(out, text("seen") if number == 0 else "", line, width=_LABEL_WIDTH)
    labelled(out, text("means"), finding.meaning, width=_LABEL_WIDTH)
    for number, step in enumerate(finding.fix):
        label = text("fix") if number == 0 else ""
        labelled(out, label, step, width=_LABEL_WIDTH, wrapped=not _is_command(step))
    for number, other in enumerate(finding.other_causes):
        label = text("if not") if number == 0 else ""
        line = text("{cause}. Check: {check}", cause=other.cause, check=other.check)
        labelled(out, label, line, width=_LABEL_WIDTH, wrapped=True)


def _is_command(step: str) -> bool:
    """Whether a step contains a shell command: it must stay on one line to be copied. English sentences begin with a capital."""
    words = in_english(step)
    first = words.split(maxsplit=1)[0]
    return "=" in first or "/" in first or first.islower() or _COMMAND_WITHIN.search(words) is not None


def _show_checks(checks: tuple[ProductCheck, ...], out: Console) -> None:
    if not checks:
        out.print(text("Nothing to verify: no framework sees an accelerator."))
        return
    out.print(Text(text("Matrix products compared with the CPU"), style="bold"))
    for check in checks:
        result = text("correct") if check.passed else text("WRONG") if check.wrong else text("failed")
        device = text(
            "{framework} {dtype} on {device} ({card})",
            framework=check.framework,
            dtype=check.dtype,
            device=check.device,
            card=check.name,
        )
        style = "green" if check.passed else "bold red"
        out.print(Text.assemble("  ", (result, style), f"  {device}: {check.error or _accuracy(check)}"))


def _accuracy(check: ProductCheck) -> str:
    return text(
        "largest error {error:.1e}, allowed {tolerance:.1e}, computed on {device}",
        error=check.largest_error,
        tolerance=check.tolerance,
        device=check.ran_on,
    )


def show_rule_page(rule: type[Rule], out: Console) -> None:
    """Print the page of one rule."""
    show_page(
        Text.assemble(
            (rule.code, "bold"),
            f"  {rule.title}",
            ("  ", ""),
            (text("({severity})", severity=_SEVERITIES[rule.severity]), "dim"),
        ),
        rule.page(),
        out,
    )


def show_rule_list(rules: Iterable[type[Rule]], out: Console) -> None:
    """Print all rules, one line each."""
    listed = list(rules)
    width = max(len(rule.code) for rule in listed) + 2
    for rule in listed:
        mark, style = _MARKS[rule.severity]
        severity = f"{mark} {align_left(_SEVERITIES[rule.severity], 9)}"
        hanging(out, Text.assemble((align_left(rule.code, width), "bold"), (severity, style)), rule.title)
