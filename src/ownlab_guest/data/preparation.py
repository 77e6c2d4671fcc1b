"""Reads the members of entries, makes images smaller where that is wanted, and computes checksums: the work of the threads."""

import zlib
from typing import List, NamedTuple, Union

from ownlab_guest.data.digests import digest_of
from ownlab_guest.data.reencoding import Reencoding, image_problem, reencode
from ownlab_guest.data.shard_writer import Payload
from ownlab_guest.data.sources.source import Entry, Source
from ownlab_guest.text import text


class Prepared(NamedTuple):
    """A sample that is ready to be written, or why it is not."""

    name: str
    label: Union[str, int, None]
    payloads: List[Payload]
    digest: bytes = b""
    error: str = ""


def prepare(entry: Entry, source: Source, wanted: Reencoding, *, digests: bool) -> Prepared:
    """Prepare an entry. That it cannot be read becomes its error."""
    try:
        payloads = []
        for part in entry.parts:
            content = source.fetch(part.place) if part.data is None else part.data
            extension = part.extension
            if wanted.wanted:
                extension, content = reencode(content, extension, wanted)
            payloads.append(Payload(extension, content, zlib.crc32(content)))
    except Exception as exc:  # Pillow raises anything for a broken image
        return Prepared(entry.name, entry.label, [], error=image_problem(exc))
    if not any(len(payload.data) for payload in payloads):
        return Prepared(entry.name, entry.label, [], error=text("it is empty"))
    digest = digest_of(payload.data for payload in payloads) if digests else b""
    return Prepared(entry.name, entry.label, payloads, digest)
