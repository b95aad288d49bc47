"""Every text in which a secret may be met: as it is, encoded, escaped or quoted. Pure."""

import html
import re
from urllib.parse import quote, quote_plus

from tarn import plain

__all__ = ["SHORTEST", "forms"]

SHORTEST = 6
"""Characters of a secret that is searched for: a shorter one would take ordinary words away."""
_ESCAPED = re.compile(r"%[0-9A-F]{2}")


def forms(secret: str) -> tuple[str, ...]:
    """Return the texts that tell *secret*, the longest first; none where it is too short.

    Besides those of `tarn.plain.forms`: in Python's and HTML's quotes, percent-encoded twice or
    with small digits, and as the octal escapes of a launch file.
    """
    if len(secret) < SHORTEST:
        return ()
    found = {*plain.forms(secret), secret.strip(), html.escape(secret), repr(secret)[1:-1]}
    for once in (quote(secret, "", errors="replace"), quote_plus(secret, errors="replace")):
        found |= {once, quote(once, ""), _ESCAPED.sub(lambda code: code[0].lower(), once)}
    data = secret.encode("utf-8", "surrogateescape")
    found.add("".join(chr(byte) if _kept(byte) else f"\\0{byte:03o}" for byte in data))
    found = {form for form in found if len(form) >= SHORTEST} | {secret}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _kept(byte: int) -> bool:
    """Whether a launch file writes *byte* as it is."""
    return byte < 128 and chr(byte).isalnum()  # noqa: PLR2004 (ASCII)
