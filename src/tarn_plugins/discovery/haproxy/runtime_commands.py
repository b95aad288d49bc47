"""Commands of the Runtime API that change something, and what a good answer to each is. Pure.

HAProxy answers every command with a text and never with a status; most say nothing when they did
what was asked. `complaint` reads the answer, so that no failure passes for a success.
"""

import enum

import attrs

__all__ = ["ExpectedReply", "RuntimeCommand", "complaint"]


class ExpectedReply(enum.Enum):
    """What HAProxy says when it did what was asked."""

    NOTHING = ()
    ADDED = ("New server registered",)
    DELETED = ("Server deleted", "still has connections", "No such server")
    """Connections that are still open are not a fault: it is deleted a moment later."""
    MOVED = ("changed from", "no need to change")


@attrs.frozen
class RuntimeCommand:
    """One command."""

    server: str
    """The server that it is about."""
    text: str
    good: ExpectedReply = ExpectedReply.NOTHING


def complaint(order: RuntimeCommand, answer: str) -> str:
    """Return what HAProxy complains about in its *answer* to *order*; nothing when all is well."""
    said = answer.strip()
    if not order.good.value:
        return said
    return "" if any(words in said for words in order.good.value) else (said or "no answer")
