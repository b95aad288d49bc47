"""What a container said, read from YARN's diagnostics. Pure.

The text holds whatever YARN puts around and between the lines, may repeat them, and may have lost
its beginning: YARN keeps the last 4096 bytes of the file.
"""

import re
from collections.abc import Mapping

import attrs

from tarn_plugins.runtime.yarn.probe.script import MARK

__all__ = ["Facts", "parse"]

_LINE = re.compile(rf"{MARK}(?P<name>[a-z][a-z0-9_]*)=(?P<value>.*)")
_LONGEST = 200


@attrs.frozen
class Facts:
    """Name to what was said; a name that is missing was never said, or is lost."""

    values: Mapping[str, str] = attrs.field(factory=dict, hash=False)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.values)

    @property
    def whole(self) -> bool:
        """Whether beginning and end are there: what is missing then was not said."""
        return "begin" in self.values and "end" in self.values

    def get(self, name: str) -> str:
        """Return what was said; empty where nothing was."""
        return self.values.get(name, "")

    def yes(self, name: str) -> bool | None:
        """Return what was said to a question; None: nothing that can be told."""
        return {"yes": True, "no": False}.get(self.get(name))

    def number(self, name: str) -> int | None:
        """Return a number; None: none was said."""
        text = self.get(name)
        return int(text) if text.isascii() and text.isdigit() else None

    def room(self, name: str) -> tuple[int, int] | None:
        """Return (size, free) of a file system, MiB; None: nobody knows."""
        parts = self.get(name).split()
        if len(parts) != 2 or not all(p.isascii() and p.isdigit() for p in parts):  # noqa: PLR2004
            return None
        return int(parts[0]) // 1024, int(parts[1]) // 1024

    def version(self, name: str) -> tuple[int, ...]:
        """Return the first version number in what was said: ``openjdk version "17.0.9"``."""
        found = re.search(r"[0-9]+(?:\.[0-9]+)*", self.get(name))
        return tuple(int(part) for part in found[0].split(".")) if found else ()


def parse(diagnostics: str) -> Facts:
    """Return the facts in YARN's words about a container; of a name said twice the last."""
    values = {}
    for line in diagnostics.split("\n"):
        found = _LINE.search(line)
        if found is not None:
            values[found["name"]] = _clean(found["value"])
    return Facts(values)


def _clean(text: str) -> str:
    """Return *text* without what could move a terminal's cursor."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown.strip()[:_LONGEST]
