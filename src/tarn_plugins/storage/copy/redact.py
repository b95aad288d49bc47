"""Messages without secrets: what a URI carries, and what other people's errors repeat of it."""

import re

__all__ = ["redact", "without_secrets"]

_USER = re.compile(r"(?<=//)[^/@\s]*@")
_QUERY = re.compile(r"\?\S+")


def redact(uri: str) -> str:
    """Return *uri* with user, password and query masked; a query often carries a signature."""
    return _QUERY.sub("?***", _USER.sub("***@", uri))


def without_secrets(text: str, uri: str) -> str:
    """Return *text* on one line, without the secrets of *uri*, and with every URI in it masked."""
    user, query = _USER.search(uri), _QUERY.search(uri)
    carried = [query[0][1:]] if query else []
    if user:
        carried += [user[0][:-1], *user[0][:-1].split(":")]
    for secret in sorted(filter(None, carried), key=len, reverse=True):
        text = text.replace(secret, "***")
    return redact(" ".join(text.split()))
