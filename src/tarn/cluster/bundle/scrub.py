"""One text after another without secrets and, unless they are wanted, without names. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from tarn.cluster.bundle.forms import SHORTEST, forms
from tarn.cluster.bundle.patterns import unsaid
from tarn.cluster.bundle.pseudonyms import Pseudonyms

__all__ = ["Scrubber"]

GUESSED = "looks like a secret"
_EDGE = 12
"""Characters of a secret that tell too much of it, where the beginning of a text cuts it off."""


@attrs.define
class Scrubber:
    """Knows the secrets of one cluster, and takes them out of every text.

    Args:
        known: Secrets, and what each is: ``api token``. A value may stand for several.
        names: None: people and machines keep their names.
    """

    known: Mapping[str, str] = attrs.field(repr=False)
    names: Pseudonyms | None = None
    _kinds: dict[str, str] = attrs.field(init=False, repr=False)
    _pattern: re.Pattern[str] | None = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Make one pattern of every form of every secret, the longest first."""
        self._kinds = {form: kind for value, kind in self.known.items() for form in forms(value)}
        longest_first = sorted(self._kinds, key=lambda form: (-len(form), form))
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )

    @property
    def too_short(self) -> int:
        """How many secrets are masked only where their name tells what they are."""
        return sum(len(value) < SHORTEST for value in self.known)

    def clean(self, text: str) -> tuple[str, Mapping[str, int]]:
        """Return *text* as it may be given away, and what was taken out of it, counted by kind."""
        counted: Counter[str] = Counter()

        def mask(found: re.Match[str]) -> str:
            kind = self._kinds[found[0]]
            counted[kind] += 1
            return _mark(kind)

        text = self._edges(text, counted)
        if self._pattern is not None:
            text = self._pattern.sub(mask, text)
        text, guessed = unsaid(text)
        if guessed:
            counted[GUESSED] = guessed
        if self.names is not None:
            text = self.names.replace(text)
        return text, dict(counted)

    def told(self, text: str) -> tuple[str, ...]:
        """Return the kinds of secrets that *text* still tells; none, if `clean` is right."""
        if self._pattern is None:
            return ()
        return tuple(sorted({self._kinds[found[0]] for found in self._pattern.finditer(text)}))

    def _edges(self, text: str, counted: Counter[str]) -> str:
        """Return *text* without the rest of a secret that its first or last character cut."""
        for value, kind in self.known.items():
            for piece in _pieces(value):
                if text.startswith(piece):
                    text, counted[kind] = _mark(kind) + text[len(piece) :], counted[kind] + 1
                    break
            for piece in _pieces(value, first=True):
                if text.endswith(piece):
                    text, counted[kind] = text[: -len(piece)] + _mark(kind), counted[kind] + 1
                    break
        return text


def _mark(kind: str) -> str:
    return f"***{kind.replace(' ', '-')}***"


def _pieces(value: str, *, first: bool = False) -> Iterator[str]:
    """Yield the proper ends (or beginnings) of *value* that tell much of it, the longest first."""
    for size in range(len(value) - 1, _EDGE - 1, -1):
        yield value[:size] if first else value[-size:]
