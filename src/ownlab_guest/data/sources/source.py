"""The interface of a source, and the rules that all sources share: samples from files, classes from folders."""

import itertools
import posixpath
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from ownlab_guest.data.errors import DataError
from ownlab_guest.data.image_extensions import IMAGES
from ownlab_guest.text import listing, text

# A sample is held in memory while it is packed.
MOST_MEMBER_BYTES = 256 << 20
_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "test", "testing", "dev"))
_NO_DATA = frozenset(("Thumbs.db", "desktop.ini", "__MACOSX"))
_MOST_EXTENSION = 24  # with the number and the stem it must fit into a tar header


class ArchiveReader(NamedTuple):
    """How an archive is read that no source here knows: a command that writes its files as a tar. The host names it."""

    command: List[str]
    volumes: List[str]  # the files that the archive consists of


def archive_of(fields: "Dict[str, Any]") -> Optional[ArchiveReader]:
    """Return how an archive is read, from a request of the host."""
    found = fields.get("archive")
    return None if found is None else ArchiveReader(found["command"], found["volumes"])


class Options(NamedTuple):
    """Which columns and which part of a source are meant."""

    path_column: Optional[str] = None
    label_column: Optional[str] = None
    split: Optional[str] = None  # of a Hugging Face data set
    only: Optional[str] = None  # a folder in a folder or an archive
    archive: Optional[ArchiveReader] = None


class Part(NamedTuple):
    """A member of an entry: its bytes, or the place that `Source.fetch` gets them from."""

    extension: str
    size: int
    data: Optional[bytes] = None
    place: str = ""


class Entry(NamedTuple):
    """A sample to be packed. A label is a class by name, or a number."""

    name: str
    label: Union[str, int, None]
    parts: Tuple[Part, ...]


class Source:
    """What is packed. `packing.py` calls every method; `fetch` and `size_of` from several threads at once."""

    by_reference = True  # entries have places; False: they have their bytes, which are kept until they are written
    total: Optional[int] = None  # entries, where that is known before they are listed
    left_out: int = 0  # files that are no part of the data, such as a README beside the folders of classes
    class_names: Optional[Tuple[str, ...]] = None  # where the source itself numbers its classes

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, in the same order each time."""
        raise NotImplementedError

    def fetch(self, place: str) -> bytes:
        """Return the bytes behind a place. Raises OSError or DataError."""
        raise NotImplementedError

    def size_of(self, place: str) -> Optional[int]:
        """Return the bytes that `fetch` will read; None where only reading shows it. For parts that are listed without a size."""
        return None

    def identity(self) -> Dict[str, Any]:
        """What must be unchanged when packing continues."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what is open."""


class File(NamedTuple):
    """A file of a folder or an archive; its name has slashes, and is relative to what is packed."""

    name: str
    size: int
    place: str


def is_data(name: str) -> bool:
    """Whether a file is data: not hidden, and not what operating systems leave in folders."""
    return not any(part.startswith(".") or part in _NO_DATA for part in name.split("/"))


def split_name(name: str) -> "Tuple[str, str]":
    """ "cats/a.b.jpg" -> ("cats/a.b", "jpg"). Only a short alphanumeric end is an extension."""
    stem, extension = posixpath.splitext(name)
    extension = extension[1:].lower()
    if not extension or len(extension) > _MOST_EXTENSION or not (extension.isascii() and extension.isalnum()):
        return name, "bin"
    return stem, extension


def samples_of(files: Iterable[File]) -> Iterator[Entry]:
    """Yield an entry for each stem; files that differ in the extension alone belong together.

    Images do not: a.jpg and a.png are two samples. Files with one stem must stand together. The class is the first folder.
    """
    current, group = "", []  # type: str, List[Tuple[str, File]]
    for file in files:
        stem, extension = split_name(file.name)
        if group and stem != current:
            yield from _entries(group)
            group = []
        current = stem
        group.append((extension, file))
    if group:
        yield from _entries(group)


def _entries(group: "List[Tuple[str, File]]") -> Iterator[Entry]:
    extensions = [extension for extension, _ in group]
    together = len(set(extensions)) == len(group) and sum(extension in IMAGES for extension in extensions) <= 1
    for part in [group] if together else [[item] for item in group]:
        first = next((file for extension, file in part if extension in IMAGES), part[0][1])
        yield Entry(
            first.name,
            first.name.split("/", 1)[0] if "/" in first.name else None,
            tuple(Part(extension, file.size, place=file.place) for extension, file in part),
        )


class Layout(NamedTuple):
    """What the names in a source show: a folder around everything, and whether the others are classes."""

    root: str  # with a slash at its end, or ""
    has_folders: bool


def layout_of(path: str, names: Iterable[str], only: Optional[str] = None) -> Layout:
    """Look at all names, keeping only the folders; `only` is the folder that is wanted.

    Raises DataError when the folders are parts of a data set, or `only` is none of them.
    """
    if only is None:
        return _layout(path, names, "")
    folder = only.strip("/") + "/"
    meant: List[str] = []
    below = (name[len(folder) :] for name in _watched(names, folder, meant) if name.startswith(folder))
    first = next(below, None)
    if first is None:
        raise no_folder(path, only, meant)
    found = _layout(path, itertools.chain([first], below), folder)
    return Layout(folder + found.root, found.has_folders)


def no_folder(path: str, only: str, meant: "List[str]") -> DataError:
    """The error for a folder that is not there; `meant`: folders of that name deeper down."""
    message = text("{path} has no folder {folder}.", path=path, folder=only)
    return (
        DataError(message, hint=text("It has this one: --only {folder}", folder=meant[0]))
        if meant
        else DataError(message)
    )


def _watched(names: Iterable[str], folder: str, meant: "List[str]") -> Iterator[str]:
    """Pass the names on, and note the first folder that ends as the wanted one."""
    for name in names:
        if not meant and "/" + folder in name:
            meant.append(name[: name.index("/" + folder) + len(folder)])
        yield name


def _layout(path: str, names: Iterable[str], above: str) -> Layout:
    root, inside, beside = None, {}, False  # type: Optional[str], Dict[str, set[str]], bool
    loose = False
    for name in names:
        first, slash, rest = name.partition("/")
        if not slash:
            loose = True
            continue
        root = first if root is None else root
        beside = beside or first != root
        second, slash, _ = rest.partition("/")
        inside.setdefault(first, set())
        if slash and len(inside[first]) < 10_000:
            inside[first].add(second)
    if root is not None and not beside and not loose and inside[root]:
        refuse_splits(path, sorted(inside[root]), above + root + "/")
        return Layout(root + "/", True)
    refuse_splits(path, sorted(inside), above)
    return Layout("", bool(inside))


def refuse_splits(path: str, folders: "List[str]", below: str) -> None:
    """Raise DataError where all folders are parts such as train and val: packed together, they would be mixed."""
    if folders and all(folder.lower() in _SPLITS for folder in folders):
        message = text(
            "{path} has parts, not classes: {folders}.", path=path, folders=listing([below + name for name in folders])
        )
        raise DataError(
            message,
            hint=text("Take one at a time, so that they are not mixed: --only {first}", first=below + folders[0]),
        )
