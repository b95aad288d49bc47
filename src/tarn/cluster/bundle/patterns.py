"""What looks like a secret although nobody said that it is one. Pure.

Better too much than too little: a word that is masked in vain costs a reader a moment.
"""

import re
from collections.abc import Iterator

from tarn.plain import MASK, masked

__all__ = ["unsaid"]

_KEYISH = (
    r"[\w.\-]{0,64}"
    r"(?:key(?!error|board|tab|words?\b)|token|passw(?:or)?d|passphrase|secret|credential"
    r"|signature|authorization|cookie)[\w.\-]{0,64}"
)
_NUMBERS = r"\d{1,6}|\d{1,3}(?:\.\d{1,5}){1,3}"
_HARMLESS = (
    rf"(?!(?:auto|none|null|true|false|\*{{3}}|{_NUMBERS}|(?:file|env):[^\s\"']*)"
    r"(?![^\s,;\"'}\])]))"
)
"""Values that tell nothing: kinds, places, small numbers, versions."""

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
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
"""Of a GPU, of a pod: it opens nothing."""
_CLASSES = (re.compile(r"[0-9]"), re.compile(r"[A-Z]"), re.compile(r"[a-z]"))
_LEAST, _LEAST_TURNS = 2, 10
"""Of a random run of 32 digits in base64, nearly every one has more of each kind, and turns more
often from one kind to another. Names, paths and classes do not."""
_LEAST_TURNS_OF_LETTERS, _LEAST_SHARE = 13, 0.3
"""Of 43 such digits one run in 160 has fewer than two numerals. It turns still more often, and half
of its letters are large; in names made of words, few are."""
_TURN = re.compile(r"(?<=[0-9])[A-Za-z]|(?<=[A-Z])[0-9a-z]|(?<=[a-z])[0-9A-Z]")


def unsaid(text: str) -> tuple[str, int]:
    """Return *text* without what looks like a secret, and how many such places there were."""
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
    """Say whether *run* looks like base64 of a random number rather than like a name or a path."""
    if _UUID.search(run):
        return False
    digits, large, small = (len(kind.findall(run)) for kind in _CLASSES)
    turns = len(_TURN.findall(run))
    if digits >= _LEAST:
        return min(large, small) >= _LEAST and turns >= _LEAST_TURNS
    return turns >= _LEAST_TURNS_OF_LETTERS and min(large, small) >= _LEAST_SHARE * (large + small)
