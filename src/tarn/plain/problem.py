"""What is wrong with plain data, and how values are shown in messages."""

import difflib
from collections.abc import Iterable, Mapping

import attrs

from tarn.plain.mask import MASK, masked, secret_path

__all__ = ["BAD_VALUE", "UNKNOWN_KEY", "Problem", "did_you_mean", "join", "shown"]

UNKNOWN_KEY, BAD_VALUE = "TARN-2001", "TARN-2002"
_LONGEST_SHOWN = 60


@attrs.frozen
class Problem:
    """One thing that cannot be meant, before it is known where it was written."""

    path: str
    code: str
    text: str
    """What was found; follows the path: ``= 3: …`` or ``: unknown key``."""
    right: str = ""
    next_step: str = ""

    @property
    def found(self) -> str:
        """Return path and text as one phrase."""
        return f"{self.path}{self.text}" if self.path else self.text.removeprefix(": ")


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
    """Return ``Did you mean 'x'?`` for the known word nearest to *word*, or nothing."""
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word)[:_LONGEST_SHOWN].lower(), lower, n=1, cutoff=0.6)
    return f"Did you mean '{lower[near[0]]}'?" if near else ""
