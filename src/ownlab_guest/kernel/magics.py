"""The magics of `%load_ext ownlab`: `%fit`, `%doctor`, `%%train` and `%%why`."""

import argparse
import ast
import os
import shlex
import subprocess
import sys
from typing import Any, Callable, Dict, List, NoReturn, Tuple, Type

from ownlab_guest.kernel.training import train
from ownlab_guest.kernel.why import why_magic
from ownlab_guest.text import shown, text

__all__ = ["register"]

_USAGE = "%fit model [inputs] [--infer] [--precision amp-bf16] [--batch max] [--cards T4,h200] …; %fit --help"


def register(shell: Any, fit: Callable[..., Any], failures: Tuple[Type[Exception], ...]) -> None:
    """Register the magics in this IPython. Exceptions of the types `failures` are shown in one line."""
    from IPython.core.error import UsageError

    def fit_magic(line: str) -> Any:
        """Predict the GPU memory of a step of a model: %fit model [inputs] [options of `ownlab fit`]"""
        try:
            expressions, options = _parse(line)
        except _HelpShown:
            return None
        except _BadLine as exc:
            raise UsageError(str(exc)) from exc
        given = [shell.ev(expression) for expression in expressions]
        named = {name: shell.ev(options.pop(name)) for name in ("loss", "targets") if name in options}
        try:
            return fit(*given, **named, **options)
        except failures as exc:
            raise UsageError(_one_line(exc)) from exc

    def doctor_magic(line: str) -> None:
        """Check whether this kernel can use the GPU: %doctor [options of `ownlab doctor`]"""
        _doctor(shlex.split(line))

    shell.register_magic_function(fit_magic, "line", "fit")
    shell.register_magic_function(doctor_magic, "line", "doctor")

    def measure_magic(line: str, cell: str) -> None:
        """Run this cell, and say why it trains slowly: %%why [--steps N] [--save FILE]"""
        try:
            why_magic(shell, line, cell)
        except failures as exc:
            raise UsageError(_one_line(exc)) from exc

    shell.register_magic_function(train, "cell", "train")
    shell.register_magic_function(measure_magic, "cell", "why")


def _one_line(error: Exception) -> str:
    hint = getattr(error, "hint", "")
    return "%s%s" % (error, ". " + hint if hint else "")


class _BadLine(Exception):
    """The line cannot be parsed."""


class _HelpShown(Exception):
    """`--help` was given, and the help was shown."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _BadLine("%s. %s" % (message, _USAGE))

    def exit(self, status: int = 0, message: Any = None) -> NoReturn:
        raise _HelpShown


def _parse(line: str) -> Tuple[List[str], Dict[str, Any]]:
    """Return the expressions (model, inputs, loss) and the options of a line."""
    line = line.strip()
    at = 0 if line.startswith("-") else line.find(" --")
    head, rest = (line, "") if at < 0 else (line[:at].strip(), line[at:])
    options = {
        name: value for name, value in vars(_parser().parse_args(shlex.split(rest))).items() if value is not None
    }
    if not head:
        raise _BadLine(shown(text("missing argument: the model. {usage}", usage=_USAGE)))
    return _expressions(head), options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%fit model [inputs]", allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--train", action="store_true", help=shown(text("a training step (the default)")))
    parser.add_argument("--infer", action="store_false", dest="train", help=shown(text("inference")))
    loss = shown(text("a function of the output, and of the targets"))
    parser.add_argument("--loss", metavar="EXPRESSION", help=loss)
    parser.add_argument("--targets", metavar="EXPRESSION")
    see = shown(text("see `ownlab fit --help`"))
    for name in ("optimizer", "precision", "batch", "cards", "allocator", "weights", "lora"):
        parser.add_argument("--" + name, help=see)
    for name in ("seq", "accumulate", "steps"):
        parser.add_argument("--" + name, type=int, metavar="N", help=see)
    for name in ("fused", "foreach", "checkpointing", "channels-last", "remedies"):
        parser.add_argument("--" + name, action="store_true", help=see)
    parser.add_argument("--no-foreach", action="store_false", dest="foreach", help=see)
    return parser


def _expressions(line: str) -> List[str]:
    """Split "net (8, 4)" or "net, (8, 4)" into two expressions; spaces inside of an expression belong to it."""
    whole = _tree(line)
    if isinstance(whole, ast.Tuple) and not line.startswith("("):
        return [ast.unparse(element) for element in whole.elts]
    if whole is not None and not (isinstance(whole, ast.Call) and " (" in line):
        return [line]
    for index, letter in enumerate(line):
        if letter == " " and _tree(line[:index]) is not None and _tree(line[index:].strip()) is not None:
            return [line[:index], line[index:].strip()]
    message = text("{line} is neither a model nor a model and its inputs. {usage}", line=repr(line), usage=_USAGE)
    raise _BadLine(shown(message))


def _tree(code: str) -> Any:
    try:
        return ast.parse(code, mode="eval").body
    except SyntaxError:
        return None


def _doctor(arguments: List[str]) -> None:
    """Run `ownlab doctor` about this kernel's Python."""
    python = os.environ.get("OWNLAB_HOST") or sys.executable
    # Variables of this Python would mislead another one; and a kernel claims to be a terminal.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FORCE_COLOR"))}
    command = [python, "-m", "ownlab", "doctor", *arguments]
    if not {"--python", "--from", "--machine", "--explain"} & {argument.split("=")[0] for argument in arguments}:
        command += ["--python", sys.executable]
    ran = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    sys.stdout.write(ran.stdout.decode(errors="replace"))
    sys.stderr.write(ran.stderr.decode(errors="replace"))
