"""A topology of Knox, read into its parts; each keeps its line. Pure.

Nothing outside the file is ever looked at: a document type, which entities need, is refused.
"""

import xml.parsers.expat
from collections.abc import Iterator

import attrs

from tarn.errors import ConfigError

__all__ = ["Element", "KnoxProvider", "Parameter", "Service", "Topology", "parse"]

_DEEPEST = 32
"""A topology has six floors."""


@attrs.define
class Element:
    """One element, without its attributes: a topology has none."""

    tag: str
    line: int
    text: str = ""
    children: list["Element"] = attrs.field(factory=list)

    def all(self, tag: str) -> Iterator["Element"]:
        """Yield the children named *tag*."""
        return (child for child in self.children if child.tag == tag)

    def leaf(self, tag: str) -> str:
        """Return the text of the first child named *tag*, without blanks around; else nothing."""
        return next((child.text.strip() for child in self.all(tag)), "")


@attrs.frozen
class Parameter:
    """One parameter of a provider; *value* as it is written, blanks and line ends included."""

    name: str
    value: str
    line: int


@attrs.frozen
class KnoxProvider:
    """One provider of the chain."""

    role: str
    name: str
    enabled: bool
    parameters: tuple[Parameter, ...]
    line: int


@attrs.frozen
class Service:
    """One service, and (URL, line) for each of its URLs."""

    role: str
    urls: tuple[tuple[str, int], ...]
    line: int


@attrs.frozen
class Topology:
    """What a topology's file says."""

    providers: tuple[KnoxProvider, ...]
    services: tuple[Service, ...]


def parse(data: bytes) -> Topology:
    """Return what the file says.

    Raises:
        ConfigError: It is not XML (TARN-3312), declares a document type (TARN-3313), or is
            something else than a topology (TARN-3311). ``where`` is the line.
    """
    root = _tree(data)
    if root.tag != "topology":
        raise ConfigError(
            f"the root is <{root.tag}>; a topology's is <topology>",
            code="TARN-3311",
            where=str(root.line),
        )
    providers = (_provider(one) for gateway in root.all("gateway") for one in gateway.children)
    return Topology(
        tuple(provider for provider in providers if provider is not None),
        tuple(_service(one) for one in root.all("service")),
    )


def _provider(element: Element) -> KnoxProvider | None:
    if element.tag != "provider":
        return None
    rows = ((one, next(one.all("value"), None)) for one in element.all("param"))
    return KnoxProvider(
        element.leaf("role"),
        element.leaf("name"),
        element.leaf("enabled").lower() != "false",
        tuple(
            Parameter(row.leaf("name"), value.text if value else "", (value or row).line)
            for row, value in rows
        ),
        element.line,
    )


def _service(element: Element) -> Service:
    urls = tuple((one.text.strip(), one.line) for one in element.all("url"))
    return Service(element.leaf("role"), tuple(url for url in urls if url[0]), element.line)


def _tree(data: bytes) -> Element:
    reader = _TopologyReader()
    try:
        return reader.read(data)
    except xml.parsers.expat.ExpatError as error:
        said = xml.parsers.expat.ErrorString(error.code)
        raise ConfigError(
            f"not well-formed XML: {said}", code="TARN-3312", where=str(error.lineno)
        ) from error
    except LookupError as error:
        raise ConfigError(f"not readable XML: {error}", code="TARN-3312", where="1") from error


class _TopologyReader:
    """Builds elements while expat reads."""

    def __init__(self) -> None:
        self._top = Element("", 0)
        self._open = [self._top]
        self._parser = xml.parsers.expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def read(self, data: bytes) -> Element:
        """Return the root."""
        self._parser.Parse(data, True)  # noqa: FBT003 (expat's own signature)
        return self._top.children[0]

    def _begin(self, tag: str, _attributes: object) -> None:
        if len(self._open) > _DEEPEST:
            raise self._refused("TARN-3311", f"elements nested more than {_DEEPEST} deep")
        element = Element(tag, self._parser.CurrentLineNumber)
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        self._open.pop()

    def _text(self, found: str) -> None:
        self._open[-1].text += found

    def _doctype(self, *_: object) -> None:
        raise self._refused("TARN-3313", "a DOCTYPE, which may read other files")

    def _refused(self, code: str, found: str) -> ConfigError:
        return ConfigError(found, code=code, where=str(self._parser.CurrentLineNumber))
