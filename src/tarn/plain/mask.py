"""Mask secrets in everything that is shown: messages, ``/config``, ``tarn config explain``."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus

__all__ = ["MASK", "SecretMasker", "forms", "masked", "redact", "secret_path"]

MASK = "***"
_SECRET_KEY = re.compile(r"KEY|TOKEN|PASSWORD|SECRET|CREDENTIAL|PASSPHRASE|AUTH", re.IGNORECASE)
# Below these the keys are a user's or a provider's, so only their names tell what is secret.
_FREE = frozenset({"env", "options", "args", "tls", "spnego"})
# The length of a scheme is limited, so that a long line is searched in linear time.
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,40}://)[^/\s]*@")
_ASSIGNED = re.compile(
    r"(?P<name>(?:key|token|password|secret|credential|passphrase)\w{0,64}=)[^,;&\s]+",
    re.IGNORECASE,
)

# Options of Triton with values like ``PARTS:NAME=KEY``, of which the key is secret.
_RESTRICTED = re.compile(r"(?:http|grpc)[-_]restricted[-_](?:api|protocol)")
_GROUP = re.compile(rf"(?P<name>{_RESTRICTED.pattern}=[^=\n]*=)[^'\"\n]+")


def redact(plain: object, *, free: bool = False, secret: bool = False) -> object:
    """Return YAML-shaped *plain* with secrets masked.

    In ``env``, ``options`` and other mappings with free keys, every value under a key with a
    secret's name is masked. Everywhere, user and password in a URL, ``password=…``, and the keys
    of Triton's restricted parts are masked.

    Args:
        plain: The result of `tarn.config.dump`, or a part of it.
        free: Whether *plain* is in a mapping with free keys.
        secret: Whether *plain* is under a key with a secret's name.
    """
    if isinstance(plain, Mapping):
        return {
            key: redact(
                _keyless(value) if _RESTRICTED.fullmatch(str(key).lstrip("-")) else value,
                free=free or key in _FREE,
                secret=secret or (free and bool(_SECRET_KEY.search(str(key)))),
            )
            for key, value in plain.items()
        }
    if isinstance(plain, list | tuple):
        return [redact(item, free=free, secret=secret) for item in plain]
    if secret and plain is not None:
        return MASK
    return masked(plain) if isinstance(plain, str) else plain


def _keyless(groups: object) -> object:
    """Return the value of such an option without its keys."""
    if isinstance(groups, list | tuple):
        return [_keyless(group) for group in groups]
    if groups is None:
        return None
    parts, equals, _ = str(groups).partition("=")
    return f"{parts}={MASK}" if equals else MASK


def masked(text: str) -> str:
    """Return *text* with users and passwords in URLs, ``password=…`` and Triton's keys masked."""
    text = _GROUP.sub(rf"\g<name>{MASK}", text)
    return _ASSIGNED.sub(rf"\g<name>{MASK}", _USERINFO.sub(rf"\g<scheme>{MASK}@", text))


def secret_path(path: str) -> bool:
    """Whether a value at the dotted *path* must not be shown."""
    free = path == "api.token"  # a user may have written the token itself there
    for part in path.replace("[", ".").split("."):
        if free and _SECRET_KEY.search(part):
            return True
        free = free or part in _FREE
    return False


# Shorter forms occur by chance, and masking these places would reveal the secret.
SHORTEST = 8


def forms(secret: str | bytes) -> frozenset[str]:
    """Return the texts from which *secret* can be read: itself and its usual encodings.

    These are base64 (at any offset), base64 for URLs, percent-encoding, hexadecimal, and JSON.
    """
    plain = secret.encode(errors="surrogateescape") if isinstance(secret, str) else secret
    made = {plain.hex(), plain.hex().upper()}
    # In base64 three bytes become four characters, so a text depends on the bytes before it.
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
    """Masks known secrets, and texts that look like secrets. Any thread may use it."""

    def __init__(self, secrets: Iterable[str | bytes] = ()) -> None:
        self._forms: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(*secrets)

    def add(self, *secrets: str | bytes) -> None:
        """Mask *secrets* as well from now on, unless they are shorter than `SHORTEST`."""
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
        # Each pattern of `masked` contains one of these characters, and most texts contain none.
        return masked(text) if "=" in text or "@" in text else text

    def value(self, value: object) -> object:
        """Return plain *value* (strings, numbers, mappings, lists) with its strings masked."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.value(part) for key, part in value.items()}
            case list() | tuple():
                return [self.value(part) for part in value]
            case _:
                return value
