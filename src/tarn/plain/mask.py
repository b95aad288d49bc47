"""Keep secrets out of whatever is shown: messages, ``/config``, ``tarn config explain``."""

import re
from collections.abc import Mapping

__all__ = ["MASK", "masked", "redact", "secret_path"]

MASK = "***"
_SECRET_KEY = re.compile(r"KEY|TOKEN|PASSWORD|SECRET|CREDENTIAL|PASSPHRASE|AUTH", re.IGNORECASE)
_FREE = frozenset({"env", "options", "args", "tls", "spnego"})
"""Below these the keys are the user's, or a provider's: their names tell what is secret."""
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,40}://)[^/\s]*@")
"""A scheme has a bound, so that a long line without any takes no longer for it."""
_ASSIGNED = re.compile(
    r"(?P<name>(?:key|token|password|secret|credential|passphrase)\w{0,64}=)[^,;&\s]+",
    re.IGNORECASE,
)

_RESTRICTED = re.compile(r"(?:http|grpc)[-_]restricted[-_](?:api|protocol)")
"""Options of Triton that are ``PARTS:NAME=KEY``: what follows any name is secret."""
_GROUP = re.compile(rf"(?P<name>{_RESTRICTED.pattern}=[^=\n]*=)[^'\"\n]+")


def redact(plain: object, *, free: bool = False, secret: bool = False) -> object:
    """Return YAML-shaped *plain* with secrets masked.

    Masked are: in ``env``, ``options`` and other maps of free keys, whatever lies under a key
    that speaks of a secret; everywhere, user and password in a URL, ``password=…``, and the keys
    of Triton's restricted parts.

    Args:
        plain: What `tarn.config.dump` returns, or a part of it.
        free: *plain* is already such a map of free keys.
        secret: *plain* lies under a key that speaks of a secret.
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
    """Return *text* without user and password of a URL, ``password=…``, and Triton's keys."""
    text = _GROUP.sub(rf"\g<name>{MASK}", text)
    return _ASSIGNED.sub(rf"\g<name>{MASK}", _USERINFO.sub(rf"\g<scheme>{MASK}@", text))


def secret_path(path: str) -> bool:
    """Whether a value at the dotted *path* must not be shown."""
    free = path == "api.token"  # whoever writes a token there must not see it again in a log
    for part in path.replace("[", ".").split("."):
        if free and _SECRET_KEY.search(part):
            return True
        free = free or part in _FREE
    return False
