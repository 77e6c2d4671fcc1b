"""The names of files that code contains: in a cell, in a script, in a shell command."""

import ast
import os
import re
import shlex
from typing import Iterator, List, NamedTuple, Sequence, Set

__all__ = ["Words", "composes_paths", "imports_of", "names_in_code", "names_in_text", "patterns_in_code", "runs_commands", "words_of"]  # fmt: skip

MAX_NAME = 1024  # longer text is no name
# Calls whose arguments name what they create or delete, by the beginning of their last name.
CREATORS = ("save", "write", "dump", "to_", "imwrite", "savefig", "mkdir", "makedirs", "urlretrieve", "download", "remove", "rmtree", "unlink", "rename", "run_line_magic")  # fmt: skip
COMMANDS = ("system", "getoutput", "run_cell_magic")
_VALUES = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|%\(\w+\)\d*[a-zA-Z]|\{[^{}]*\}")
_NAME_IN_TEXT = re.compile(r"[\w./-]+\.\w+")
_NO_LETTERS = re.compile(r"[\W_]")
_SEPARATORS = re.compile(r"^[;&|()\n]+$")
_REDIRECTION = re.compile(r"^[<>]*>[<>&]*$")
_PREFIXES = ("sudo", "time", "nohup", "env", "exec", "nice")
# Commands whose arguments name what they create, fetch or delete.
_CREATING = ("mkdir", "touch", "rm", "rmdir", "wget", "curl", "aria2c", "gdown", "kaggle", "ln", "tee", "huggingface-cli", "git", "apt", "apt-get")  # fmt: skip
# The last argument of these is where something goes.
_TO_LAST = ("cp", "mv", "rsync", "install", "scp")
_UNPACKING = ("unzip", "tar", "7z", "unrar", "gunzip", "bunzip2", "unxz")
_TARGET_OPTIONS = ("-o", "-O", "-d", "-C", "--output", "--directory", "--target-directory")


class Words(NamedTuple):
    """What a command may read: words that may name files, whether they may name folders too, and modules that it runs."""

    files: List[str]
    folders: List[str]
    modules: List[str]


def names_in_code(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a program that may name a file to read."""
    created: Set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node).startswith(CREATORS):
            created |= {id(each) for each in [*node.args, *(word.value for word in node.keywords)]}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in created:
            yield from [node.value] if _may_be_name(node.value) else []


def patterns_in_code(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a program composes of text and values, as patterns: f"img_{n}.png" is img_*.png."""
    for node in ast.walk(tree):
        pattern = re.sub(r"\*+", "*", _pattern(node) or "")
        if _is_pattern(pattern):
            yield pattern


def composes_paths(tree: ast.AST) -> bool:
    """Return whether a program puts paths together, or imports from more folders: then folders that are named may be read."""
    return any(map(_composes_path, ast.walk(tree)))


def names_in_text(content: str) -> Iterator[str]:
    """Yield the words of a script, or of a configuration file, that look like names of files."""
    yield from filter(_may_be_name, _NAME_IN_TEXT.findall(content))


def _composes_path(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        several = {"join": 2, "joinpath": 1}.get(_called(node))
        if several is not None and len(node.args) >= several:
            return True
    if isinstance(node, ast.Attribute):
        return node.attr == "path" and getattr(node.value, "id", "") == "sys"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):  # of pathlib
        return _text_of(node.right) is not None or isinstance(node.right, ast.JoinedStr)
    return _is_pattern(_pattern(node) or "")


def _is_pattern(word: str) -> bool:
    """Return whether a text with values is the name of a file rather than a sentence, a single value, or f"{job}_{n}", which could be any."""
    return "*" in word and " " not in word and len(_NO_LETTERS.sub("", word)) >= 2 and _may_be_name(word)


def _pattern(node: ast.AST) -> "str | None":
    """Return a text with "*" in place of its values; None if this is no such text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (_pattern(side) if _text_of(side) is None else _text_of(side) for side in (node.left, node.right))
        return None if left is None and right is None else (left or "*") + (right or "*")
    template = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        template = _text_of(node.left)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        template = _text_of(node.func.value)
    return None if template is None else _VALUES.sub("*", template)


def _text_of(node: ast.AST) -> "str | None":
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def runs_commands(tree: ast.AST) -> bool:
    """Return whether a cell, as IPython translated it, runs shell commands, which may create the files that it names."""
    return any(isinstance(node, ast.Call) and _called(node) in COMMANDS for node in ast.walk(tree))


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield the top-level names of the modules that a program imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def words_of(command: str) -> Words:
    """Return what the commands of a shell's line, or script, may read."""
    found = Words([], [], [])
    created: List[str] = []
    for simple in _simple_commands(command):
        name = _add(simple, found, created)
        if name in _UNPACKING:
            break  # what follows may read what was in the archive
    return Words(_without(found.files, created), _without(found.folders, created), found.modules)


def _may_be_name(word: str) -> bool:
    return 0 < len(word) <= MAX_NAME and "\n" not in word and "\0" not in word


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _simple_commands(command: str) -> Iterator[List[str]]:
    for line in command.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quote that another line closes
            tokens = line.split()
        simple: List[str] = []
        for token in [*tokens, ";"]:
            if not _SEPARATORS.match(token):
                simple.append(token)
            elif simple:
                yield simple
                simple = []


def _add(simple: Sequence[str], found: Words, created: List[str]) -> str:
    """Add what a command may read and what it creates. Return its name."""
    words = list(simple)
    while words and (words[0] in _PREFIXES or re.match(r"^\w+=", words[0])):
        del words[0]
    name = os.path.basename(words[0]) if words else ""
    arguments = _arguments(words, found, created)
    if name in _CREATING:
        created += arguments[1:]
        # A clone, or a download, without a name of its own.
        created += [os.path.basename(word.rstrip("/")).partition(".git")[0] for word in arguments[1:]]
        return name
    if name in _TO_LAST:
        created += arguments[-1:]
        del arguments[-1:]
    found.files.extend(arguments)
    if name not in _UNPACKING:
        found.folders.extend(arguments)
    return name


def _arguments(words: Sequence[str], found: Words, created: List[str]) -> List[str]:
    """Return the words that may be read: not what options or redirections create."""
    arguments, before = [], ""
    for word in words:
        if before == "-m":
            found.modules.append(word.partition(".")[0])
        elif before in _TARGET_OPTIONS or _REDIRECTION.match(before):
            created.append(word)
        elif not _REDIRECTION.match(word):
            arguments.append(word.partition("=")[2] if word.startswith("-") else word)
        before = word
    return [word for word in arguments if _may_be_name(word)]


def _without(words: Sequence[str], created: Sequence[str]) -> List[str]:
    made = {os.path.normpath(each) for each in created if each}
    return [word for word in words if not any(_is_in(os.path.normpath(word), each) for each in made)]


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
