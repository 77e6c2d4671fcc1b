"""`%load_ext ownlab`: `%fit` and `%doctor`."""

import argparse
import ast
import os
import shlex
import subprocess
import sys
from typing import Any, Callable, Dict, List, NoReturn, Tuple, Type

__all__ = ["register"]

_USE = "%fit model [inputs] [--infer] [--precision amp-bf16] [--batch max] [--cards T4,h200] …; %fit --help"


def register(shell: Any, fit: Callable[..., Any], failures: Tuple[Type[Exception], ...]) -> None:
    """Give them to this IPython. What raises one of the failures is said in a line."""
    from IPython.core.error import UsageError

    def fit_magic(line: str) -> Any:
        """Say how much GPU memory a step of a model takes: %fit model [inputs] [options of `ownlab fit`]"""
        try:
            expressions, options = _parse(line)
        except _Helped:
            return None
        except _Wrong as exc:
            raise UsageError(str(exc)) from exc
        given = [shell.ev(one) for one in expressions]
        named = {name: shell.ev(options.pop(name)) for name in ("loss", "targets") if name in options}
        try:
            return fit(*given, **named, **options)
        except failures as exc:
            hint = getattr(exc, "hint", "")
            raise UsageError("%s%s" % (exc, ". " + hint if hint else "")) from exc

    def doctor_magic(line: str) -> None:
        """Say whether GPU work will run in this kernel: %doctor [options of `ownlab doctor`]"""
        _doctor(shlex.split(line))

    shell.register_magic_function(fit_magic, "line", "fit")
    shell.register_magic_function(doctor_magic, "line", "doctor")


class _Wrong(Exception):
    """The line cannot be understood."""


class _Helped(Exception):
    """Help was asked for, and shown."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Wrong("%s. %s" % (message, _USE))

    def exit(self, status: int = 0, message: Any = None) -> NoReturn:
        raise _Helped


def _parse(line: str) -> Tuple[List[str], Dict[str, Any]]:
    """Expressions (model, inputs, loss) and options."""
    line = line.strip()
    at = 0 if line.startswith("-") else line.find(" --")
    said, rest = (line, "") if at < 0 else (line[:at].strip(), line[at:])
    options = {
        name: value for name, value in vars(_parser().parse_args(shlex.split(rest))).items() if value is not None
    }
    if not said:
        raise _Wrong("which model is meant? " + _USE)
    return _expressions(said), options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%fit model [inputs]", allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--train", action="store_true", help="a training step (the default)")
    parser.add_argument("--infer", action="store_false", dest="train", help="inference")
    parser.add_argument("--loss", metavar="EXPRESSION", help="a function of the output, and of the targets")
    parser.add_argument("--targets", metavar="EXPRESSION")
    for name in ("optimizer", "precision", "batch", "cards", "allocator"):
        parser.add_argument("--" + name, help="as of `ownlab fit`")
    for name in ("seq", "accumulate", "steps"):
        parser.add_argument("--" + name, type=int, metavar="N", help="as of `ownlab fit`")
    for name in ("fused", "foreach", "checkpointing", "channels-last", "remedies"):
        parser.add_argument("--" + name, action="store_true", help="as of `ownlab fit`")
    parser.add_argument("--no-foreach", action="store_false", dest="foreach", help="as of `ownlab fit`")
    return parser


def _expressions(said: str) -> List[str]:
    """ "net (8, 4)" or "net, (8, 4)" -> two; spaces within an expression belong to it."""
    whole = _tree(said)
    if isinstance(whole, ast.Tuple) and not said.startswith("("):
        return [ast.unparse(one) for one in whole.elts]
    if whole is not None and not (isinstance(whole, ast.Call) and " (" in said):
        return [said]
    for place, letter in enumerate(said):
        if letter == " " and _tree(said[:place]) is not None and _tree(said[place:].strip()) is not None:
            return [said[:place], said[place:].strip()]
    raise _Wrong("%r is neither a model nor a model and its inputs. %s" % (said, _USE))


def _tree(text: str) -> Any:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _doctor(arguments: List[str]) -> None:
    """The whole doctor, about this kernel's Python."""
    python = os.environ.get("OWNLAB_HOST") or sys.executable
    # What belongs to this Python would lead another one astray; and a kernel says that it is a terminal.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FORCE_COLOR"))}
    command = [python, "-m", "ownlab", "doctor", *arguments]
    if not {"--python", "--from", "--machine", "--explain"} & {one.split("=")[0] for one in arguments}:
        command += ["--python", sys.executable]
    ran = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    sys.stdout.write(ran.stdout.decode(errors="replace"))
    sys.stderr.write(ran.stderr.decode(errors="replace"))
