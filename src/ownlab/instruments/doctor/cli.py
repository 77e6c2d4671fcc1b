"""`ownlab doctor`: what is here, and what is wrong."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option, machine_options
from ownlab.config.target import resolve_machine_options
from ownlab.errors import DeviceUnusable, InterpreterError, UsageError
from ownlab.instruments.doctor.diagnosis import case_of, diagnose
from ownlab.instruments.doctor.queries import has_accelerator
from ownlab.instruments.doctor.records import Case, Diagnosis, ProductCheck
from ownlab.instruments.doctor.rule import RuleList, RulePage
from ownlab.instruments.doctor.rules import RULES, find_rule
from ownlab.instruments.doctor.terminal import show_diagnosis, show_page, show_rules
from ownlab.instruments.doctor.verification import verify
from ownlab.machine.facts import Unknown
from ownlab.machine.reader import read_machine
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.command("doctor")
@json_option
@machine_options
@click.option(
    "--from", "source", metavar="FILE", help="Diagnose another machine from a text its owner pasted; - is stdin."
)
@click.option("--verify", "prove", is_flag=True, help="Prove that each accelerator computes, against the CPU's result.")
@click.option("--require-gpu", is_flag=True, help="End with exit code 1 unless GPU work will run.")
@click.option("--explain", metavar="CODE", help="Show the page of a finding's code; `all` lists every code.")
def command(
    as_json: bool,
    python: str | None,
    machine: str | None,
    source: str | None,
    prove: bool,
    require_gpu: bool,
    explain: str | None,
) -> None:
    """Say in one sentence whether GPU work will run here, then what was found and what mends it.

    With --from, the same for a machine elsewhere: paste a saved machine, `python -m torch.utils.collect_env`,
    `nvidia-smi` (plain, -q, -q -x, -L, CSV), `npu-smi info`, `rocm-smi`, `amd-smi`, `lspci -k`, `dmesg`, `pip list`,
    several of them in any order, or just an error message.

    Exit code: 0 fine, or no accelerator; 1 an accelerator is there and cannot be used; 2 wrong use; 3 input that cannot
    be read; 4 a Python that cannot be run.
    """
    if explain is not None:
        _explain(explain, as_json)
        return
    case = _case(source, python, machine, prove)
    checks: tuple[ProductCheck, ...] = ()
    if prove:
        with working("Multiplying matrices on every accelerator"):
            checks = verify(case.machine.interpreter)
    diagnosis = diagnose(case, checks)
    if as_json:
        echo_record(diagnosis)
    else:
        show_diagnosis(diagnosis, console(), verified=prove)
    click.get_current_context().exit(_exit_code(diagnosis, require_gpu))


def _case(source: str | None, python: str | None, machine: str | None, prove: bool) -> Case:
    if source is not None and (prove or python or machine):
        raise UsageError("--from speaks of another machine; it does not go with --verify, --python or --machine")
    if python and machine:
        raise UsageError("a saved machine has its Python in it; --python does not go with --machine")
    if source is None:
        options = resolve_machine_options(python=python, machine=machine)
        if prove and options.machine_file is not None:
            raise UsageError("--verify computes on the machine in front of you; a saved machine cannot compute")
        with working("Looking at this machine"):
            return case_of(read_machine(options))
    # Imported here: the readers of pasted text are a third of the start-up time, and mostly not needed.
    from ownlab.instruments.doctor.paste.reader import read_file, read_paste

    return read_paste(read_file(source), name="stdin" if source == "-" else source)


def _explain(code: str, as_json: bool) -> None:
    if code == "all":
        if as_json:
            echo_record(RuleList(tuple(RulePage.of(rule) for rule in RULES)))
        else:
            show_rules(RULES, console())
        return
    rule = find_rule(code.lower())
    if as_json:
        echo_record(RulePage.of(rule))
    else:
        show_page(rule, console())


def _exit_code(diagnosis: Diagnosis, require_gpu: bool) -> int:
    machine = diagnosis.machine
    python = machine.interpreter
    silent = [fact for fact in (python.version, python.frameworks) if isinstance(fact, Unknown)]
    if machine.origin == "live" and silent:
        return InterpreterError.exit_code
    trouble = any(finding.blocks for finding in diagnosis.findings) or has_accelerator(machine)
    unusable = diagnosis.verdict.gpu_work == "no" and trouble
    if unusable or (require_gpu and diagnosis.verdict.gpu_work != "yes"):
        return DeviceUnusable.exit_code
    return 0
