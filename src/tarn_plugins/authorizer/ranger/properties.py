"""Configuration files of Hadoop's kind: ``<property><name/><value/></property>``. Pure."""

import xml.parsers.expat
from collections.abc import Mapping
from xml.sax.saxutils import escape

from tarn.errors import ConfigError

__all__ = ["parse", "render"]

UNREADABLE = "TARN-3402"


def parse(data: bytes, where: str) -> dict[str, str]:
    """Return name to value; of two properties of one name the later one counts.

    Raises:
        ConfigError: It is not XML, or declares a document type, which could read other files.
    """
    reader = _PropertiesReader()
    try:
        reader.read(data)
    except xml.parsers.expat.ExpatError as error:
        raise _unreadable(where, f"it is not well-formed XML (line {error.lineno})") from error
    except ValueError as error:
        raise _unreadable(where, str(error)) from error
    return reader.found


def render(properties: Mapping[str, str]) -> bytes:
    """Return such a file."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""]).encode()


class _PropertiesReader:
    """Collects the properties; what stands around them is nobody's."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._now: dict[str, str] = {}

    def read(self, data: bytes) -> None:
        parser = xml.parsers.expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.Parse(data, True)  # noqa: FBT003 (expat's own: the last piece)

    def _doctype(self, *_declared: object) -> None:
        raise ValueError("it declares a document type")

    def _start(self, tag: str, _attributes: object) -> None:
        if not self._path and tag != "configuration":
            raise ValueError(f"its root is <{tag}>; a configuration's is <configuration>")
        self._path.append(tag)
        self._text.clear()
        if tag == "property":
            self._now = {}

    def _end(self, tag: str) -> None:
        self._path.pop()
        if self._path[-1:] == ["property"]:
            self._now[tag] = "".join(self._text).strip()
        elif tag == "property" and self._now.get("name"):
            self.found[self._now["name"]] = self._now.get("value", "")
        self._text.clear()


def _unreadable(where: str, found: str) -> ConfigError:
    return ConfigError(found, code=UNREADABLE, where=where)
