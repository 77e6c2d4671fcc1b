"""Notices in a kernel of Colab mode that a file is about to be read, so that one beside the notebook can be copied in time.

Python announces what it opens and lists ("audit events"), also inside libraries that are written in Python; and the commands
that it starts. Libraries in C open files unannounced: for them the names in a cell are looked at before it runs.
"""

import ast
import contextlib
import functools
import glob
import os
import re
import sys
import threading
from typing import Any, Callable, Dict, List, Tuple

from ownlab_guest.colab import named_files
from ownlab_guest.colab.notebook_files import NotebookFiles
from ownlab_guest.shell.notebook_folder import notebook_path
from ownlab_guest.text import listing, shown, text

__all__ = ["follow"]

CREATES = os.O_CREAT | os.O_TRUNC | os.O_EXCL
SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script|system|sx|!)\b[^\n]*\n")
SHOWN = 5
MAX_SCRIPT = 1 << 20  # bytes
MAX_TEXT = 64 << 10
# Files in which scripts are told what to read, and scripts of a shell.
TEXTS = (".sh", ".cfg", ".conf", ".ini", ".json", ".toml", ".yaml", ".yml")


def follow(shell: Any) -> None:
    """Copy what cells ask for from the notebook's folder into /content, and say so after the cell."""
    folder = os.path.dirname(notebook_path())
    content = os.getcwd()
    if not os.environ.get("OWNLAB_CONTENT") or not os.path.isabs(folder) or os.path.realpath(folder) == content:
        return
    requests = FileRequests(NotebookFiles(content, folder), shell)
    shell.events.register("pre_run_cell", requests.before_cell)
    shell.events.register("post_run_cell", requests.after_cell)


class FileRequests:
    """Handles what a kernel is about to read."""

    def __init__(self, files: NotebookFiles, shell: Any) -> None:
        self._files, self._shell = files, shell
        self._busy = threading.local()  # set while this thread copies: its own reading is no request
        self._in_cell = self._listens = False
        self._named_folders: Dict[str, None] = {}  # in the order in which cells have named them
        self._matched = False  # glob was asked for a pattern, and is about to list the folder

    def _listen(self) -> None:
        """Listen to what Python announces, from the first cell that has files beside its notebook.

        Not before: id() announces itself, too, and takes 0.15 instead of 0.03 microseconds from then on (Python 3.11), which doubles
        the time of copy.deepcopy. Python cannot remove a hook again.
        """
        if not self._listens and self._files.has_any():
            self._listens = True
            sys.addaudithook(self._hook())
            self._extend_stat()

    def _extend_stat(self) -> None:
        """Let os.stat, which announces nothing, find what is beside the notebook: it answers os.path.exists and Path.is_file, too."""
        original = os.stat

        @functools.wraps(original)
        def stat(path: Any, *args: Any, **options: Any) -> os.stat_result:
            __tracebackhide__ = True
            try:
                return original(path, *args, **options)
            except FileNotFoundError:
                if not self._in_cell or not self._asks(path, options):
                    raise
            return original(path, *args, **options)

        for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if original in able:
                able.add(stat)
        os.stat = stat

    def _asks(self, path: Any, options: Dict[str, Any]) -> bool:
        """Bring what somebody asks for that is missing. Return whether it may be there now."""
        found: List[bool] = []
        if options.get("dir_fd") is None:
            self._copy(lambda: found.append(self._reads(path) or self._begins(path)))
        return any(found)

    def _begins(self, path: Any) -> bool:
        name = self._name(path)
        return bool(name) and self._files.begin_folder(name)

    def _hook(self) -> Callable[[str, Tuple[Any, ...]], None]:
        handlers: Dict[str, Callable[..., object]] = {
            "open": self._opens,
            "sqlite3.connect": self._reads,
            "ctypes.dlopen": self._reads,
            "os.rename": self._reads,
            "os.chdir": self._lists,
            "os.listdir": self._lists,
            "os.scandir": self._scans,
            "glob.glob": self._matches,
            "pathlib.Path.glob": self._matches_below,
            "pathlib.Path.rglob": self._matches_below,
            "subprocess.Popen": lambda executable, arguments, *rest: self._starts(arguments),
            "os.system": self._starts,
        }
        find = handlers.get

        def notice(event: str, arguments: Tuple[Any, ...]) -> None:
            handle = find(event)
            if handle is not None:
                self._copy(lambda: handle(*arguments))

        return notice

    def before_cell(self, info: Any) -> None:
        """Copy the files that a cell names, for what opens them unannounced."""
        self._in_cell = True
        self._listen()
        cell = info.raw_cell
        shell_cell = SHELL_CELL.match(cell)
        if shell_cell:
            self._copy(lambda: self._bring_words(cell[shell_cell.end() :]))
        elif "'" in cell or '"' in cell:
            self._copy(lambda: self._bring_names(cell))

    def after_cell(self, result: Any) -> None:
        """Say what was copied."""
        self._in_cell = self._matched = False
        new = self._files.take_new()
        if new:
            more = [text("{count} more", count=len(new) - SHOWN)] if len(new) > SHOWN else []
            message = text(
                "Copied from the notebook's folder into /content: {names}. What the notebook changes there stays in /content.",
                names=listing([*new[:SHOWN], *more]),
            )
            sys.stderr.write(shown(message) + "\n")

    def _copy(self, action: Callable[[], object]) -> None:
        """Do it, once at a time in a thread. If something cannot be copied, what asked for it gets its own error."""
        if getattr(self._busy, "copies", False):
            return
        self._busy.copies = True
        try:
            with contextlib.suppress(OSError, ValueError, RecursionError):
                action()
        finally:
            self._busy.copies = False

    def _opens(self, path: Any, mode: Any = None, flags: int = 0) -> None:
        if not flags & CREATES:
            self._reads(path)

    def _reads(self, path: Any, *ignored: Any) -> bool:
        name = self._name(path)
        return bool(name) and self._files.bring_file(name)

    def _lists(self, path: Any = None, *ignored: Any) -> None:
        if not self._in_cell:
            return
        if _is_here(path) and self._is_content(""):
            self._files.bring_all()
        elif name := self._name(os.curdir if _is_here(path) else path):
            self._files.bring_folder(name)

    def _scans(self, path: Any = None, *ignored: Any) -> None:
        if self._matched and _is_here(path):
            self._matched = False  # by glob, for which the files that match were copied
        else:
            self._lists(path)

    def _matches(self, pattern: Any, *ignored: Any) -> None:
        if not isinstance(pattern, str) or not self._in_cell:
            return
        folder, last = os.path.split(pattern)
        if glob.has_magic(folder):
            while glob.has_magic(folder):
                folder = os.path.dirname(folder)
            self._lists(folder or None)
        elif self._is_content(folder):
            self._matched = True
            self._files.bring_matching(last)
        else:
            self._lists(folder)

    def _matches_below(self, folder: Any, pattern: str, *ignored: Any) -> None:
        self._matches(os.path.join(os.fspath(folder), pattern))

    def _starts(self, arguments: Any) -> None:
        """A command: of a list, only an argument with spaces is a command for a shell."""
        given = [arguments] if isinstance(arguments, (str, bytes)) else list(arguments)
        words = [os.fsdecode(each) for each in given if isinstance(each, (str, bytes, os.PathLike))]
        lines = [each for each in words if re.search(r"[\s;|&<>]", each)]
        if len(lines) < len(words):
            import shlex

            self._bring_words(" ".join(shlex.quote(each) for each in words if each not in lines))
        for line in lines:
            self._bring_words(line)

    def _bring_words(self, command: str) -> None:
        words = named_files.words_of(command)
        for word in words.files:
            if glob.has_magic(word):
                self._match_word(word)
            elif (name := self._name(word)) and self._files.bring_file(name):
                self._bring_needed([name])
        if any(map(_is_here, words.folders)) and self._is_content(""):
            self._files.bring_all(deep=True)
        for name in filter(None, map(self._name, words.folders)):
            self._files.bring_folder(name)
        for module in words.modules:
            self._bring_needed(self._files.bring_module(module))

    def _match_word(self, pattern: str) -> None:
        folder, last = os.path.split(pattern)
        if self._is_content(folder):
            self._files.bring_matching(last)
        elif name := self._name(folder):
            self._files.bring_folder(name)

    def _bring_needed(self, scripts: List[str]) -> None:
        """Copy what scripts import and name: they run in processes that announce nothing."""
        waiting, seen = list(scripts), set(scripts)
        while waiting:
            name = waiting.pop()
            tree = self._parsed(name)
            if tree is None:
                self._bring_from_text(name)
                continue
            for literal in named_files.names_in_code(tree):
                self._reads(literal)
            for module in named_files.imports_of(tree):
                new = [each for each in self._files.bring_module(module) if each not in seen]
                seen.update(new)
                waiting += new

    def _bring_from_text(self, name: str) -> None:
        path = self._files.path_of(name)
        if name.endswith(TEXTS) and os.path.getsize(path) <= MAX_TEXT:
            with open(path, encoding="utf-8", errors="replace") as file:
                for word in named_files.names_in_text(file.read()):
                    self._reads(word)

    def _parsed(self, name: str) -> "ast.AST | None":
        path = self._files.path_of(name)
        if not name.endswith(".py") or os.path.getsize(path) > MAX_SCRIPT:
            return None
        with open(path, "rb") as file:
            return _parse(file.read())

    def _bring_names(self, cell: str) -> None:
        tree = _parse(self._shell.transform_cell(cell))
        if tree is None or named_files.runs_commands(tree):
            return
        for literal in named_files.names_in_code(tree):
            name = self._name(literal)
            if name and not self._files.bring_file(name) and self._files.has_folder(name):
                self._named_folders[name] = None
        if named_files.composes_paths(tree):
            self._bring_composed(tree)

    def _bring_composed(self, tree: ast.AST) -> None:
        """Copy what names may mean that the cell composes, if it is little: a library in C may read it."""
        for folder in self._named_folders:
            self._files.bring_folder(folder, maybe=True)
        for pattern in named_files.patterns_in_code(tree):
            folder, last = os.path.split(pattern)
            if self._is_content(folder):
                self._files.bring_matching(last, maybe=True)
            elif not glob.has_magic(folder) and (name := self._name(folder)):
                self._files.bring_folder(name, maybe=True)

    def _is_content(self, folder: str) -> bool:
        return os.path.realpath(folder or os.curdir) == os.path.realpath(self._files.path_of(""))

    def _name(self, path: Any) -> str:
        if isinstance(path, int) or path is None:
            return ""
        return self._files.name_of(os.fsdecode(path))


def _is_here(path: Any) -> bool:
    """Return whether this is the working folder without its name. Imports list it by its name."""
    return path is None or (not isinstance(path, int) and os.fsdecode(path) in ("", ".", "./"))


def _parse(source: "str | bytes") -> "ast.AST | None":
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None
