"""`ownlab doctor`: parse the command, choose the machine, show the diagnosis or a rule's page."""

from __future__ import annotations

import os
from typing import cast

import click

from ownlab.cli.options import json_option, machine_options
from ownlab.config.machine_options import resolve_machine_options
from ownlab.errors import DeviceUnusable, InterpreterError, UsageError
from ownlab.instruments.doctor.cluster.records import NodeJobs
from ownlab.instruments.doctor.diagnosis import case_of, diagnose
from ownlab.instruments.doctor.queries import has_accelerator
from ownlab.instruments.doctor.records import Case, Diagnosis, ProductCheck
from ownlab.instruments.doctor.rule import RuleList, RulePage
from ownlab.instruments.doctor.rules import RULES, find_rule
from ownlab.instruments.doctor.terminal import show_diagnosis, show_rule_list, show_rule_page
from ownlab.instruments.doctor.verification import verify
from ownlab.machine.facts import Unknown
from ownlab.machine.reader import read_machine
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.command("doctor")
@json_option
@machine_options
@click.option(
    "--from", "source", metavar="FILE", help="Diagnose another machine from text pasted from it; - reads stdin."
)
@click.option(
    "--verify", "verify_devices", is_flag=True, help="Compute on each accelerator and compare with the CPU's result."
)
@click.option("--require-gpu", is_flag=True, help="Exit with code 1 unless GPU work will run.")
@click.option(
    "--cluster", is_flag=True, help="Check the Slurm cluster that is reached from here, instead of this machine."
)
@click.option(
    "--node-jobs",
    type=click.Choice(["idle", "all", "none"]),
    help="With --cluster: on which nodes a job of some seconds looks around. Default: idle, those on which nothing else runs.",
)
@click.option("--explain", metavar="CODE", help="Explain a finding by its code; `all` lists every code.")
def command(
    as_json: bool,
    python: str | None,
    machine: str | None,
    source: str | None,
    verify_devices: bool,
    require_gpu: bool,
    cluster: bool,
    node_jobs: str | None,
    explain: str | None,
) -> None:
    """Check whether the GPU can be used, and how to fix it if not.

    The first line is the verdict; the findings follow, each with its evidence and its fix.

    --from diagnoses another machine from pasted text: a saved machine, `python -m torch.utils.collect_env`,
    `nvidia-smi` (plain, -q, -q -x, -L, CSV), `npu-smi info`, `rocm-smi`, `amd-smi`, `lspci -k`, `dmesg`, `pip list`,
    several of them in any order, or just an error message.

    --cluster looks at Slurm: munge, clocks, users, the shared folder, versions, the configured GPUs, ports, the interpreter. On
    idle nodes it runs a job of some seconds, which takes no GPU.

    Exit codes: 0 no problem, or no accelerator; 1 an accelerator, or the cluster, cannot be used; 2 wrong usage; 3 unreadable input; 4
    Python cannot be run.

    \b
    ownlab doctor --verify              prove it by a product on every device
    ownlab doctor --from error.txt      pasted text; - reads stdin
    ownlab doctor --explain driver-old  what a finding means
    ownlab doctor --cluster             is the Slurm cluster in order?
    """
    if explain is not None:
        _explain(explain, as_json)
        return
    if cluster:
        if source is not None or python or machine or verify_devices or require_gpu:
            raise UsageError(
                text("--cluster cannot be combined with --from, --python, --machine, --verify or --require-gpu.")
            )
        _check_cluster(cast("NodeJobs", node_jobs or "idle"), as_json)
        return
    if node_jobs is not None:
        raise UsageError(text("--node-jobs needs --cluster."))
    case = _case(source, python, machine, verify_devices)
    checks: tuple[ProductCheck, ...] = ()
    if verify_devices:
        with working(text("Multiplying matrices on every accelerator")):
            checks = verify(case.machine.interpreter)
    diagnosis = diagnose(case, checks)
    if as_json:
        echo_record(diagnosis)
    else:
        show_diagnosis(diagnosis, console(), verified=verify_devices)
    click.get_current_context().exit(_exit_code(diagnosis, require_gpu))


def _check_cluster(node_jobs: NodeJobs, as_json: bool) -> None:
    # Imported here: a machine without a cluster needs none of it.
    from ownlab.config.loader import resolve_lab_options
    from ownlab.instruments.doctor.cluster.diagnosis import diagnose_cluster
    from ownlab.instruments.doctor.cluster.reader import read_cluster
    from ownlab.instruments.doctor.cluster.terminal import show_cluster_diagnosis

    what = {
        "idle": text("Reading the cluster; a job of some seconds runs on each idle node"),
        "all": text("Reading the cluster; a job of some seconds runs on each node that takes jobs"),
        "none": text("Reading the cluster"),
    }
    with working(what[node_jobs]):
        diagnosis = diagnose_cluster(read_cluster(os.environ, resolve_lab_options(), node_jobs))
    if as_json:
        echo_record(diagnosis)
    else:
        show_cluster_diagnosis(diagnosis, console())
    click.get_current_context().exit(0 if diagnosis.verdict.usable == "yes" else DeviceUnusable.exit_code)


def _case(source: str | None, python: str | None, machine: str | None, verify_devices: bool) -> Case:
    if source is not None and (verify_devices or python or machine):
        raise UsageError(text("--from cannot be combined with --verify, --python or --machine."))
    if python and machine:
        raise UsageError(text("--python cannot be combined with --machine: a saved machine includes its Python."))
    if source is None:
        options = resolve_machine_options(python=python, machine=machine)
        if verify_devices and options.machine_file is not None:
            raise UsageError(text("--verify needs a live machine: a saved machine cannot compute."))
        with working(text("Reading this machine")):
            return case_of(read_machine(options))
    # Imported here: the parsers of pasted text take a third of the start-up time, and most calls do not need them.
    from ownlab.instruments.doctor.paste.reader import read_file, read_paste

    return read_paste(read_file(source), name="stdin" if source == "-" else source)


def _explain(code: str, as_json: bool) -> None:
    if code == "all":
        if as_json:
            echo_record(RuleList(tuple(RulePage.of(rule) for rule in RULES)))
        else:
            show_rule_list(RULES, console())
        return
    rule = find_rule(code.lower())
    if as_json:
        echo_record(RulePage.of(rule))
    else:
        show_rule_page(rule, console())


def _exit_code(diagnosis: Diagnosis, require_gpu: bool) -> int:
    machine = diagnosis.machine
    python = machine.interpreter
    unknown = [fact for fact in (python.version, python.frameworks) if isinstance(fact, Unknown)]
    if machine.origin == "live" and unknown:
        return InterpreterError.exit_code
    expected = any(finding.blocks for finding in diagnosis.findings) or has_accelerator(machine)
    unusable = diagnosis.verdict.gpu_work == "no" and expected
    if unusable or (require_gpu and diagnosis.verdict.gpu_work != "yes"):
        return DeviceUnusable.exit_code
    return 0
