"""Take known secrets out of text, in whatever form it may hold them."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus

from tarn.plain.mask import MASK, masked

__all__ = ["SecretMasker", "forms"]

SHORTEST = 8
"""A form of fewer characters could be found by chance, and its absence would tell more."""


def forms(secret: str | bytes) -> frozenset[str]:
    """Return the texts in which *secret* can be read: itself and its usual encodings.

    These are base64 (with any neighbour before it), base64 for URLs, percent-encoding,
    hexadecimal, and the quoting of JSON.
    """
    plain = secret.encode(errors="surrogateescape") if isinstance(secret, str) else secret
    made = {plain.hex(), plain.hex().upper()}
    for before in range(3):
        first = -(-before * 8 // 6)
        last = (before + len(plain)) * 8 // 6
        for encoded in (
            base64.b64encode(b"\0" * before + plain),
            base64.urlsafe_b64encode(b"\0" * before + plain),
        ):
            made.add(encoded[first:last].decode())
    text = plain.decode("utf-8", "replace")
    made |= {text, quote(text, safe=""), quote(text), quote_plus(text)}
    made |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return frozenset(form for form in made if len(form) >= SHORTEST)


class SecretMasker:
    """Hides secrets that it was told, and what looks like one. Any thread.

    Args:
        secrets: Those that are known from the beginning.
    """

    def __init__(self, secrets: Iterable[str | bytes] = ()) -> None:
        self._forms: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(*secrets)

    def add(self, *secrets: str | bytes) -> None:
        """Hide *secrets*, too, from now on; those shorter than `SHORTEST` are not hidden."""
        more = frozenset[str]().union(*(forms(secret) for secret in secrets))
        if more <= self._forms:
            return
        self._forms |= more
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, text: str) -> str:
        """Return *text* with each known secret masked, and what `tarn.plain.masked` masks."""
        if self._pattern is not None and len(text) >= SHORTEST:
            text = self._pattern.sub(MASK, text)
        # one of them stands in whatever it masks; most texts have none
        return masked(text) if "=" in text or "@" in text else text

    def value(self, value: object) -> object:
        """Return plain *value* (texts, numbers, mappings, lists) with its texts hidden."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.value(part) for key, part in value.items()}
            case list() | tuple():
                return [self.value(part) for part in value]
            case _:
                return value
