"""Remove secrets from texts, and replace names unless they are wanted. Pure.

Known secrets are found in plain, encoded, escaped and quoted form. Text that only looks like a
secret is masked, too: an unnecessary mask costs a reader little.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

import attrs

from tarn import plain
from tarn.plain import MASK, masked
from tarn_plugins.cli.support_bundle.pseudonyms import Pseudonyms

__all__ = ["SHORTEST", "Scrubber", "forms", "unsaid"]

# The shortest secret that is searched for: a shorter one would mask ordinary words.
SHORTEST = 6
_ESCAPED = re.compile(r"%[0-9A-F]{2}")
_KEYISH = (
    r"[\w.\-]{0,64}"
    r"(?:key(?!error|board|tab|words?\b)|token|passw(?:or)?d|passphrase|secret|credential"
    r"|signature|authorization|cookie)[\w.\-]{0,64}"
)
_NUMBERS = r"\d{1,6}|\d{1,3}(?:\.\d{1,5}){1,3}"
# Values that are not secrets: kinds, places, small numbers, versions.
_HARMLESS = (
    rf"(?!(?:auto|none|null|true|false|\*{{3}}|{_NUMBERS}|(?:file|env):[^\s\"']*)"
    r"(?![^\s,;\"'}\])]))"
)
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_NAMED = r"\b(?:(?:proxy-)?authorization|x-tarn-(?:token|session)|(?:set-)?cookie|x-api-key)"
_HEADER = re.compile(
    rf"(?<![\"'])(?P<head>{_NAMED}\s*[:=]\s*)(?!\*)[^\s\"'][^\"'\n]*", re.IGNORECASE
)
_QUOTED_HEADER = re.compile(
    rf"(?P<head>{_NAMED}[\"']\s*[:=,]\s*b?)(?P<quote>[\"'])[^\"'\n]*(?P=quote)", re.IGNORECASE
)
_SCHEME = re.compile(
    r"\b(?P<scheme>Bearer|Basic|Negotiate|Digest)\s+(?![a-z]+\b)[A-Za-z0-9+/=._~\-]{8,}"
)
_QUOTED = re.compile(
    rf"(?P<head>[\"']{_KEYISH}[\"']\s*[:,][ \t]*b?)(?P<quote>[\"']){_HARMLESS}"
    r"(?P<value>(?:\\.|(?!(?P=quote))[^\\\n])+)(?P=quote)",
    re.IGNORECASE,
)
_YAML = re.compile(
    rf"^(?P<head>[ \t]*(?:- )?{_KEYISH}:[ \t]+)(?P<quote>[\"']?){_HARMLESS}[^\s{{\[\"'][^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
_XML = re.compile(
    rf"(?P<head><name>\s*{_KEYISH}\s*</name>\s*<value>){_HARMLESS}[^<]+", re.IGNORECASE
)
_QUERY = re.compile(
    r"(?P<name>[?&#;](?:delegation|code|csrf|session|sig|hadoop\.auth|AWSAccessKeyId|"
    r"X-Amz-[A-Za-z\-]+|doas-token)=)[^&\s\"'<>]+",
    re.IGNORECASE,
)
_USERINFO = re.compile(
    r"(?<![\w/])[\w.+\-]{1,64}:[^\s/@:\"']{3,}@(?=[A-Za-z0-9\-]+\.[A-Za-z0-9.\-]+)"
)
_ISSUED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w\-]{16,}"
    r"|nvapi-[\w\-]{16,}|sk-[A-Za-z0-9_\-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|xox[abprs]-[A-Za-z0-9\-]{10,}|eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"
)
_RUN = re.compile(r"(?<![\w+/\-])[A-Za-z0-9+/_\-]{32,}={0,2}(?![\w+/\-])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?<!sha256:)(?:[0-9a-f]{32,}|[0-9A-F]{32,})(?![0-9A-Za-z])")
# The id of a GPU or a pod, which is not a secret.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_CLASSES = (re.compile(r"[0-9]"), re.compile(r"[A-Z]"), re.compile(r"[a-z]"))
# Numerals, capitals and small letters in a random run of 32 characters of base64, and the changes
# from one kind to another: nearly every such run has more. Names, paths and classes have fewer.
_LEAST, _LEAST_TURNS = 2, 10
# One random run of 43 characters in 160 has fewer than two numerals. It changes between capitals
# and small letters more often, and half of its letters are capitals; names of words have few.
_LEAST_TURNS_OF_LETTERS, _LEAST_SHARE = 13, 0.3
_TURN = re.compile(r"(?<=[0-9])[A-Za-z]|(?<=[A-Z])[0-9a-z]|(?<=[a-z])[0-9A-Z]")
GUESSED = "looks like a secret"
# The length from which a part of a secret, cut off by the end of a text, reveals too much.
_EDGE = 12


def forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which a text may contain *secret*, the longest first.

    In addition to those of `tarn.plain.forms`: quoted by Python or HTML, percent-encoded twice or
    in lower case, and as the octal escapes of a launch file. A secret that is too short has none.
    """
    if len(secret) < SHORTEST:
        return ()
    found = {*plain.forms(secret), secret.strip(), html.escape(secret), repr(secret)[1:-1]}
    for once in (quote(secret, "", errors="replace"), quote_plus(secret, errors="replace")):
        found |= {once, quote(once, ""), _ESCAPED.sub(lambda code: code[0].lower(), once)}
    data = secret.encode("utf-8", "surrogateescape")
    # a launch file leaves ASCII letters and digits as they are
    kept = (chr(byte) if byte < 128 and chr(byte).isalnum() else f"\\0{byte:03o}" for byte in data)  # noqa: PLR2004
    found.add("".join(kept))
    found = {form for form in found if len(form) >= SHORTEST} | {secret}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def unsaid(text: str) -> tuple[str, int]:
    """Mask what looks like a secret in *text*; return it and the number of masks."""
    count = 0
    for pattern, instead in _rules():
        text, found = pattern.subn(instead, text)
        count += found
    text = masked(text)
    runs = [run[0] for run in _RUN.finditer(text) if _random(run[0])]
    for run in sorted(set(runs), key=len, reverse=True):
        text = text.replace(run, MASK)
    return text, count + len(runs)


def _rules() -> Iterator[tuple[re.Pattern[str], str]]:
    yield _PEM, rf"-----BEGIN \1----- {MASK}"
    yield _HEADER, rf"\g<head>{MASK}"
    yield _QUOTED_HEADER, rf"\g<head>\g<quote>{MASK}\g<quote>"
    yield _SCHEME, rf"\g<scheme> {MASK}"
    yield _QUOTED, rf"\g<head>\g<quote>{MASK}\g<quote>"
    yield _YAML, rf"\g<head>{MASK}"
    yield _XML, rf"\g<head>{MASK}"
    yield _QUERY, rf"\g<name>{MASK}"
    yield _USERINFO, f"{MASK}@"
    yield _ISSUED, MASK
    yield _HEX, MASK


def _random(run: str) -> bool:
    """Return whether *run* looks like random base64 rather than a name or a path."""
    if _UUID.search(run):
        return False
    digits, large, small = (len(kind.findall(run)) for kind in _CLASSES)
    turns = len(_TURN.findall(run))
    if digits >= _LEAST:
        return min(large, small) >= _LEAST and turns >= _LEAST_TURNS
    return turns >= _LEAST_TURNS_OF_LETTERS and min(large, small) >= _LEAST_SHARE * (large + small)


@attrs.define
class Scrubber:
    """Removes the secrets of one cluster from texts.

    Args:
        known: Secret to kind, such as ``api token``.
        names: The stand-ins; None: people and machines keep their names.
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
        """The number of secrets that are masked only next to a telling name."""
        return sum(len(value) < SHORTEST for value in self.known)

    def clean(self, text: str) -> tuple[str, Mapping[str, int]]:
        """Return *text* without secrets, and the numbers of removed secrets by kind."""
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
        """Return the kinds of secrets in *text*; none after `clean`."""
        if self._pattern is None:
            return ()
        return tuple(sorted({self._kinds[found[0]] for found in self._pattern.finditer(text)}))

    def _edges(self, text: str, counted: Counter[str]) -> str:
        """Return *text* without a part of a secret that its beginning or end cut off."""
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
    """Yield the ends (or beginnings) of *value* that reveal much of it, the longest first."""
    for size in range(len(value) - 1, _EDGE - 1, -1):
        yield value[:size] if first else value[-size:]
