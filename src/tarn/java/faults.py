"""Java's exceptions in words. Pure: it only asks the exception that it is given."""

import re
from typing import Any

import attrs

__all__ = ["Fault", "describe", "mask"]

_REMOTE = "org.apache.hadoop.ipc.RemoteException"
_DEEPEST = 16
"""Causes can form a ring; nobody reads further than this."""
_LONGEST = 500
"""Characters of one message: some hold a whole request."""
_SECRET = re.compile(
    r"(?i)\b([\w.-]*(?:delegation|token|passw(?:or)?d|secret|signature|access[._-]?key|sig)"
    r"[\w.-]*)(=|%3D)[^\s&,;'\")\]}]+"
)
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/@\s]*:[^/@\s]*@")
_FIRST_CLASS = re.compile(r"(?:[\w$]+\.)+([\w$]+):\s+")


@attrs.frozen
class Fault:
    """One Java exception, with its causes."""

    kinds: tuple[str, ...]
    """Names of the classes of the exception, of its causes, and of their superclasses; with those
    that a server named in its answer."""
    message: str
    """The first line of the message that says something; free of secrets."""
    root: str = ""
    """The same of the last cause, where that says something else."""

    def is_a(self, *names: str) -> bool:
        """Say whether the exception, or one of its causes, is of one of these classes."""
        return any(name in self.kinds for name in names)

    def __str__(self) -> str:
        """Render ``ConnectException: Connection refused (cause: ...)``."""
        name = self.kinds[0].rpartition(".")[2].rpartition("$")[2] if self.kinds else ""
        text = f"{name}: {self.message}" if self.message else name
        return f"{text} (cause: {self.root})" if self.root else text


def describe(error: Any) -> Fault:
    """Return what *error*, a ``java.lang.Throwable``, says."""
    chain = _chain(error)
    kinds: list[str] = []
    messages: list[str] = []
    for each in chain:
        names = _classes(each)
        if _REMOTE in names:
            # what the server threw; its message is that exception's whole stack trace
            names.insert(0, str(each.getClassName()))
        kinds += names
        messages.append(_line(each.getMessage()))
    first = next((message for message in messages if message), "")
    last = messages[-1]
    root = "" if not last or last in first else last
    return Fault(tuple(dict.fromkeys(kinds)), first, root)


def mask(text: str) -> str:
    """Return *text* with the values of tokens, passwords and keys replaced by ``***``. Pure."""
    return _USERINFO.sub(r"\1***@", _SECRET.sub(r"\1\2***", text))


def _chain(error: Any) -> list[Any]:
    """Return *error* and its causes."""
    chain: list[Any] = []
    while error is not None and len(chain) < _DEEPEST:
        chain.append(error)
        error = error.getCause()
    return chain


def _classes(error: Any) -> list[str]:
    """Return the name of the class of *error*, and of each above it but Object."""
    names: list[str] = []
    kind = error.getClass()
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return names[:-1]


def _line(message: Any) -> str:
    """Return the first line that is not part of a stack trace, masked and cut."""
    lines = "" if message is None else str(message)
    for raw in lines.splitlines():
        line = raw.strip()
        if line and not line.startswith("at "):
            # a server's message repeats the class that `Fault` names already
            text = mask(_FIRST_CLASS.sub("", line, count=1) or line)
            return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return ""
