"""Personal data in a home: find planted texts in every file, whatever it is encoded or compressed with."""

import io
import zipfile
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from config.settings import Settings

ALLOWED = ("warehouse/bronze/events/", "broker/data/clicks_raw-", "broker/data/users-")
"""Where personal data may be: the archive, the topic that it archives, and the untrusted edge."""


def leaks(settings: Settings, planted: Iterable[str]) -> set[tuple[str, str]]:
    """Return each planted text with each file that contains it, of all files that must not."""
    forms = {form: text for text in planted for form in _forms(text)}
    found = set()
    for file in settings.home.rglob("*"):
        name = file.relative_to(settings.home).as_posix()
        if file.is_file() and not name.startswith(ALLOWED):
            for content in _contents(file):
                lower = content.lower()
                found |= {(name, text) for form, text in forms.items() if form in lower}
    return found


def _forms(text: str) -> Iterator[bytes]:
    """Give a text in lower case as it is, and as base64, which depends on where in a group of three bytes it begins."""
    yield text.lower().encode()
    for before in range(3):
        encoded = b64encode(b"\0" * before + text.encode())[4 if before else 0 : -4]
        if len(encoded) >= 8:  # fewer characters are found by chance
            yield encoded.lower()


def _contents(file: Path) -> Iterator[bytes]:
    content = file.read_bytes()
    yield content
    if content[:4] == b"PAR1":
        yield str(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    for codec, mark in (("gzip", b"\x1f\x8b"), ("zstd", b"\x28\xb5\x2f\xfd")):
        if content.startswith(mark):
            yield pa.CompressedInputStream(pa.BufferReader(content), codec).read()
