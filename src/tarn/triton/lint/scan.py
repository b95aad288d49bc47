"""Scans a model repository on this machine: entries, models and their configurations."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from tarn.interfaces.lint import CONFIG, Config, Entry, Flaw, Kind, Model, Node, Repository
from tarn.triton.repository import MOST_ENTRIES, is_junk

__all__ = ["BIGGEST_BYTES", "MOST_ENTRIES", "assemble", "scan"]

BIGGEST_BYTES = 1024 * 1024
"""Larger files are not read; the longest known configurations have some 50 KiB."""

Parse = Callable[[str], tuple[Node | None, tuple[Flaw, ...]]]
Read = Callable[[str], bytes]
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NVIDIA = Path("/dev/nvidiactl")


def scan(path: Path, where: str, parse: Parse, *, most: int = MOST_ENTRIES) -> Repository:
    """Return the repository in the directory *path*, whatever it contains.

    Links are followed, but no directory is entered twice on one way down. The content of junk is
    not listed. Only regular files are opened.

    Raises:
        OSError: *path* itself cannot be listed.
    """
    entries: list[Entry] = []
    for entry in _walk(path):
        if len(entries) >= most:
            break
        entries.append(entry)
    whole = len(entries) < most
    read = _reader(path)
    made = assemble(tuple(sorted(entries, key=lambda each: each.path)), where, read, parse)
    return attrs.evolve(made, complete=whole, gpu_present=_NVIDIA.exists())


def assemble(entries: Sequence[Entry], where: str, read: Read, parse: Parse) -> Repository:
    """Return the repository of *entries*; pure except for *read*."""
    below: dict[str, list[Entry]] = {}
    tops: dict[str, Entry] = {}
    for entry in entries:
        top, slash, _ = entry.path.partition("/")
        if slash:
            below.setdefault(top, []).append(entry)
        else:
            tops[top] = entry
    models = tuple(
        _model(entry, tuple(below.get(name, ())), read, parse)
        for name, entry in sorted(tops.items())
        if entry.is_directory and not is_junk(name)
    )
    return Repository(where, tuple(entries), models, read=read)


def _model(entry: Entry, entries: tuple[Entry, ...], read: Read, parse: Parse) -> Model:
    file = f"{entry.path}/{CONFIG}"
    found = next((each for each in entries if each.path == file), None)
    config = _config(found, read, parse) if found is not None else None
    return Model(entry.path, entries, config, entry)


def _config(entry: Entry, read: Read, parse: Parse) -> Config:
    """Return one configuration; if it cannot be read, the reason is a flaw of it."""
    if entry.kind is not Kind.FILE:
        right = "Expected a text file."
        found = f"is {_said(entry.kind)}"
        return Config(entry.path, None, (Flaw("TARN-2320", found, right=right),))
    if entry.size > BIGGEST_BYTES:
        found = f"has {entry.size:,} bytes; a configuration has at most {BIGGEST_BYTES:,}"
        return Config(entry.path, None, (Flaw("TARN-2321", found),))
    return _parsed(entry.path, read(entry.path), parse)


def _parsed(file: str, data: bytes, parse: Parse) -> Config:
    """Return the configuration in *data*; what cannot be parsed is a flaw of it."""
    if data.startswith(_UTF16) or b"\0" in data:
        found = "is UTF-16 text" if data.startswith(_UTF16) else "is a binary file"
        return Config(file, None, (Flaw("TARN-2320", found, right="Expected UTF-8 text."),))
    flaws = _strange(data)
    # The text is parsed anyway: Triton accepts such bytes in comments.
    text = data.decode("utf-8", "surrogateescape")
    if text.startswith("\ufeff"):
        found = "begins with a byte-order mark, which Triton's parser refuses"
        step = "`tarn lint --fix` removes it."
        flaws += (Flaw("TARN-2326", found, 1, 1, next_step=step),)
    root, more = parse(text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)
    return Config(file, root, flaws + more, text)


def _strange(data: bytes) -> tuple[Flaw, ...]:
    """Return a flaw for the first byte of *data* that is not UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        found = f"has the byte 0x{data[error.start]:02x}, which is not UTF-8"
        return (Flaw("TARN-2329", found, line, column, "Expected UTF-8 text."),)
    return ()


def _said(kind: Kind) -> str:
    return "a directory: Triton crashes on it" if kind is Kind.DIRECTORY else kind.value


def _reader(top: Path) -> Read:
    def read(path: str) -> bytes:
        try:
            file = os.open(top / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        with open(file, "rb") as content:  # noqa: PTH123 (a descriptor, opened without blocking)
            status = os.fstat(file)
            small = stat.S_ISREG(status.st_mode) and status.st_size <= BIGGEST_BYTES
            return content.read(BIGGEST_BYTES) if small else b""

    return read


def _walk(top: Path) -> Iterator[Entry]:
    """Yield every entry below *top*, in no particular order."""
    pending: list[tuple[Path, str, frozenset[tuple[int, int]]]] = [(top, "", frozenset())]
    first = True
    while pending:
        directory, prefix, above = pending.pop()
        try:
            status = directory.stat()
            with os.scandir(directory) as listed:
                found = list(listed)
        except OSError:
            if first:
                raise
            yield Entry(prefix.rstrip("/"), Kind.UNREADABLE)
            continue
        first = False
        inside = above | {(status.st_dev, status.st_ino)}
        for item in found:
            entry = _entry(item, prefix, inside)
            if entry.is_directory and not is_junk(item.name):
                pending.append((directory / item.name, f"{prefix}{item.name}/", inside))
            yield entry


def _entry(item: "os.DirEntry[str]", prefix: str, inside: frozenset[tuple[int, int]]) -> Entry:
    path, linked = f"{prefix}{item.name}", item.is_symlink()
    try:
        status = item.stat()
    except FileNotFoundError:
        return Entry(path, Kind.LOST, linked=linked)
    except OSError as error:  # a link to itself; a directory that may not be searched
        kind = Kind.LOST if linked and error.errno is not None else Kind.UNREADABLE
        return Entry(path, kind, linked=linked)
    if stat.S_ISDIR(status.st_mode):
        circle = linked and (status.st_dev, status.st_ino) in inside
        open_to_us = os.access(item.path, os.R_OK | os.X_OK)
        kind = Kind.CIRCLE if circle else Kind.DIRECTORY if open_to_us else Kind.UNREADABLE
        return Entry(path, kind, linked=linked)
    if not stat.S_ISREG(status.st_mode):
        return Entry(path, Kind.OTHER, linked=linked)
    kind = Kind.FILE if os.access(item.path, os.R_OK) else Kind.UNREADABLE
    return Entry(path, kind, status.st_size, linked)
