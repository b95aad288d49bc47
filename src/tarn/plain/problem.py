"""Problems of plain data, and the form of values in messages."""

import difflib
from collections.abc import Iterable, Mapping

import attrs

from tarn.plain.mask import MASK, masked, secret_path

__all__ = ["BAD_VALUE", "UNKNOWN_KEY", "Problem", "did_you_mean", "in_quotes", "join", "shown"]

UNKNOWN_KEY, BAD_VALUE = "TARN-2001", "TARN-2002"
_LONGEST_SHOWN = 60


@attrs.frozen
class Problem:
    """One problem, before it is known in which file and line the value is."""

    path: str
    code: str
    text: str
    """The finding, which continues the path and the value: ``: unknown key``."""
    right: str = ""
    next_step: str = ""
    value: str = ""
    """The value as `shown`; empty if it is not part of the message."""
    wants_text: bool = False
    """Whether the value would be right in quotes."""
    why: str = ""
    """The reason alone, if ``text`` contains more."""

    @property
    def found(self) -> str:
        """Return path, value and text as one phrase."""
        value = f" = {self.value}" if self.value else ""
        return f"{self.path}{value}{self.text}" if self.path else self.text.removeprefix(": ")

    def as_written(self, text: str) -> "Problem":
        """Return the problem with the value as the file has it, *text*."""
        if not self.value or secret_path(self.path):
            return self
        step = in_quotes(text) if self.wants_text else self.next_step
        return attrs.evolve(self, value=masked(text) or self.value, next_step=step)


def in_quotes(text: str) -> str:
    """Return the advice to put *text* in quotes."""
    return f'Write it in quotes: "{masked(text)}"'


def join(path: str, key: object) -> str:
    """Return the dotted path of *key* below *path*; a number is an index."""
    if isinstance(key, int) and not isinstance(key, bool):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else str(key)


def shown(value: object, path: str) -> str:
    """Return *value* as messages show it: quoted, short, secrets masked."""
    if secret_path(path) and value is not None:
        return MASK
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        text = masked(value)
        return f"'{text[:_LONGEST_SHOWN]}…'" if len(text) > _LONGEST_SHOWN else f"'{text}'"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    return masked(repr(value)[:_LONGEST_SHOWN])


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return ``Did you mean 'x'?`` for the known word most similar to *word*, or ''."""
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word)[:_LONGEST_SHOWN].lower(), lower, n=1, cutoff=0.6)
    return f"Did you mean '{lower[near[0]]}'?" if near else ""
