"""Every text in which a secret may be met: as it is, encoded, escaped or quoted. Pure."""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

__all__ = ["SHORTEST", "forms"]

SHORTEST = 6
"""Characters of a secret that is searched for: a shorter one would take ordinary words away."""
_SHORTEST_CODE = 8
"""Characters of an encoded form: a shorter one is met by chance."""
_ESCAPED = re.compile(r"%[0-9A-F]{2}")


def forms(secret: str) -> tuple[str, ...]:
    """Return the texts that tell *secret*, the longest first; none where it is too short.

    These are: itself; in JSON, Python and HTML quotes; percent-encoded, once and twice; in
    hexadecimal; in base64, wherever in a longer text it begins; and as the octal escapes of a
    launch file.
    """
    if len(secret) < SHORTEST:
        return ()
    plain = secret.encode("utf-8", "surrogateescape")
    written = {secret, secret.strip(), html.escape(secret), repr(secret)[1:-1]}
    written |= {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    coded = {*_percent(secret), *_base64(plain), plain.hex(), plain.hex().upper()}
    coded.add("".join(chr(byte) if _plain(byte) else f"\\0{byte:03o}" for byte in plain))
    kept = {form for form in written if len(form) >= SHORTEST}
    kept |= {form for form in coded if len(form) >= _SHORTEST_CODE}
    return tuple(sorted(kept, key=lambda form: (-len(form), form)))


def _plain(byte: int) -> bool:
    return byte < 128 and chr(byte).isalnum()  # noqa: PLR2004 (ASCII)


def _percent(secret: str) -> Iterator[str]:
    for once in (
        quote(secret, safe="", errors="surrogateescape"),
        quote(secret, errors="surrogateescape"),
        quote_plus(secret, errors="surrogateescape"),
    ):
        yield once
        yield _ESCAPED.sub(lambda found: found[0].lower(), once)
        yield quote(once, safe="")


def _base64(plain: bytes) -> Iterator[str]:
    """Yield the digits that belong to *plain* alone, for each place at which it may begin."""
    for before in range(3):
        first = -(-before * 8 // 6)
        last = (before + len(plain)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * before + plain).decode("ascii")[first:last]
