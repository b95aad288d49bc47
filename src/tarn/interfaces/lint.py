"""The content of a model repository, and the findings of lint rules. Pure values.

A rule gets a `Repository` and yields `LintFinding`s. Names of files and values of a configuration
may contain any characters; `printable` escapes them for a terminal.
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import attrs

from tarn.domain.codes import CODES, Severity

__all__ = [
    "Config",
    "Edit",
    "Entry",
    "Flaw",
    "Kind",
    "LintFinding",
    "Location",
    "Model",
    "Node",
    "Rename",
    "Repository",
    "is_version",
    "printable",
]

CONFIG = "config.pbtxt"
# Triton 2.51 exits at once if a version directory has a higher number.
HIGHEST_VERSION = 2**63 - 1


def printable(text: str) -> str:
    """Return *text* with every invisible character escaped by a backslash."""

    def escaped(character: str) -> str:
        if "\udc80" <= character <= "\udcff":  # a byte of a name that is not UTF-8
            return f"\\x{ord(character) - 0xDC00:02x}"
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")

    return "".join(c if c.isprintable() else escaped(c) for c in text)


def is_version(name: str) -> bool:
    """Tell whether Triton certainly reads a directory of this name as a version."""
    plain = name.isascii() and name.isdecimal() and (name == "0" or not name.startswith("0"))
    return plain and int(name[:20]) <= HIGHEST_VERSION


class Kind(enum.Enum):
    """The kind of a directory's entry, after following links."""

    FILE = "file"
    DIRECTORY = "directory"
    LOST = "a link without a target"
    CIRCLE = "a link to a directory that holds it"
    UNREADABLE = "unreadable"
    OTHER = "neither a file nor a directory"


@attrs.frozen
class Entry:
    """One file or directory."""

    path: str
    """Relative, with ``/``; bytes that are not UTF-8 are surrogates, as in Python."""
    kind: Kind
    size: int = 0
    """Bytes of a file; otherwise 0."""
    linked: bool = False
    """Whether it was reached through a link."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The path above; empty at the top."""
        return self.path.rpartition("/")[0]

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.kind is Kind.DIRECTORY


@attrs.frozen
class Location:
    """The place of a finding, in the form that editors recognize."""

    file: str
    """Relative to the repository; empty: the repository itself."""
    line: int | None = None
    """From 1; None: the whole file or directory."""
    column: int | None = None
    """From 1, in characters."""

    def __str__(self) -> str:
        """Return ``file:line:column``."""
        known = (str(part) for part in (self.line, self.column) if part is not None)
        return ":".join((printable(self.file), *known))


@attrs.frozen
class Node:
    """One field of a ``config.pbtxt``, or one element of a list."""

    name: str
    line: int
    column: int
    start: int
    """Offset of the field's first character in the text."""
    end: int
    """Offset after its last character."""
    value: str | None = None
    """A scalar: a string without its quotes, or a word as written; None for a message."""
    quoted: bool = False
    fields: tuple["Node", ...] = ()

    def all(self, name: str) -> tuple["Node", ...]:
        """Return the fields of this name, in the order of the file."""
        return tuple(field for field in self.fields if field.name == name)

    def first(self, *path: str) -> "Node | None":
        """Return the first field at *path*, or None."""
        at: Node | None = self
        for name in path:
            at = next(iter(at.all(name)), None) if at else None
        return at

    def text(self, *path: str) -> str:
        """Return the scalar at *path*, or ''."""
        found = self.first(*path)
        return (found.value or "") if found else ""

    def number(self, *path: str, default: int = 0) -> int:
        """Return the whole number at *path*, or *default* without one."""
        found = self.first(*path)
        return found.whole(default) if found else default

    def whole(self, default: int = 0) -> int:
        """Return this scalar as a whole number, in any base that protobuf knows."""
        written = self.value or ""
        octal = written.lstrip("-").startswith("0") and written.lstrip("-").isdecimal()
        try:
            return int(written, 8 if octal else 0)
        except ValueError:
            return default

    def pairs(self, name: str) -> Mapping[str, "Node"]:
        """Return the entries of a map field by key; the last of equal keys counts."""
        return {entry.text("key"): entry for entry in self.all(name)}


@attrs.frozen
class Flaw:
    """Why a ``config.pbtxt`` cannot be read."""

    code: str
    found: str
    line: int | None = None
    column: int | None = None
    right: str = ""
    next_step: str = ""


@attrs.frozen
class Config:
    """A parsed ``config.pbtxt``."""

    file: str
    """Relative to the repository."""
    root: Node | None
    """None: it has flaws."""
    flaws: tuple[Flaw, ...] = ()
    text: str = attrs.field(default="", repr=False)

    def place(self, node: Node | None = None) -> Location:
        """Return the place of *node*, or of the file."""
        return Location(self.file, node.line, node.column) if node else Location(self.file)


@attrs.frozen(slots=False)
class Model:
    """One directory at the top of a repository, which Triton reads as a model."""

    name: str
    entries: tuple[Entry, ...]
    """Everything in it, paths relative to the repository, sorted."""
    config: Config | None = None
    """None: there is no ``config.pbtxt``."""
    entry: Entry = attrs.field(default=Entry("", Kind.DIRECTORY))
    """The directory itself."""

    @property
    def root(self) -> Node:
        """The configuration; an empty one if it is missing or has flaws."""
        nothing = Node("", 1, 1, 0, 0)
        return self.config.root or nothing if self.config else nothing

    @property
    def is_readable(self) -> bool:
        """Whether there is a configuration without flaws."""
        return self.config is not None and self.config.root is not None

    @cached_property
    def inside(self) -> Mapping[str, tuple[Entry, ...]]:
        """The entries by the directory that holds them, relative to the model (empty: its top)."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.parent[len(self.name) + 1 :], []).append(entry)
        return {directory: tuple(held) for directory, held in found.items()}

    def at(self, directory: str = "") -> tuple[Entry, ...]:
        """Return the entries directly in *directory*, which is relative to the model."""
        return self.inside.get(directory, ())

    def find(self, path: str) -> Entry | None:
        """Return the entry at *path*, relative to the model."""
        directory = path.rpartition("/")[0]
        whole = f"{self.name}/{path}"
        return next((entry for entry in self.at(directory) if entry.path == whole), None)

    @property
    def versions(self) -> tuple[str, ...]:
        """The names of its version directories, in the order of their numbers."""
        names = [entry.name for entry in self.at() if entry.is_directory]
        return tuple(sorted(filter(is_version, names), key=int))


@attrs.frozen(slots=False)
class Repository:
    """A model repository as it was found."""

    where: str
    """The path or URI that the user named, without credentials."""
    entries: tuple[Entry, ...]
    """Sorted; the content of junk directories (``.git``) is not listed."""
    models: tuple[Model, ...] = ()
    """Every directory at the top that is not junk, sorted."""
    complete: bool = True
    """False: the repository has too many entries to list all."""
    gpu_present: bool | None = None
    """Whether the machine has a GPU; None: unknown."""
    keeps_answers: bool | None = None
    """Whether instances have a response cache, by their spec; None: no spec is known."""
    lacks: Callable[["Model"], str] = attrs.field(default=lambda _model: "", eq=False, repr=False)
    """Return the back end that a model needs and the tritonserver of this machine lacks, or ''."""
    read: Callable[[str], bytes] = attrs.field(default=lambda _path: b"", eq=False, repr=False)
    """Read a file by its path in the repository; empty if it is unreadable or over 1 MiB."""

    def model(self, name: str) -> Model | None:
        """Return the model of this name."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, Model]:
        return {model.name: model for model in self.models}

    def readable(self) -> Iterator[tuple[Model, Config, Node]]:
        """Yield each model with a valid configuration, the configuration, and its root."""
        for model in self.models:
            if model.config is not None and model.config.root is not None:
                yield model, model.config, model.config.root


@attrs.frozen
class Edit:
    """A repair that replaces a part of a text file."""

    file: str
    start: int
    """Offset in characters of the file's text."""
    end: int
    text: str = ""


@attrs.frozen
class Rename:
    """A repair that renames a file within its directory to an unused name."""

    file: str
    to: str
    """The new path, relative to the repository."""


@attrs.frozen
class LintFinding:
    """One finding of a rule."""

    code: str
    """``TARN-nnnn``, or a plugin's own (``ACME-12``)."""
    place: Location
    found: str
    right: str = ""
    next_step: str = ""
    repair: Edit | Rename | None = None
    """Only if the intention is beyond doubt: ``--fix`` makes it without asking."""
    severity: Severity | None = None
    """None: the severity of the code, or a warning for a code that is not in the table."""

    @property
    def level(self) -> Severity:
        """``alert``: Triton will not serve as intended; ``warning``: it may not; else a note."""
        code = CODES.get(self.code)
        return self.severity or (code.severity if code else Severity.WARNING)

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.place}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """The finding, what would be right, and what to do."""
        parts = (part.rstrip(".") for part in (self.found, self.right, self.next_step) if part)
        return " ".join(part if part.endswith("?") else f"{part}." for part in parts)
