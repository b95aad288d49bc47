"""What a stream of a master says: server-sent events, with JSON in each."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tarn.errors import UnreachableError

__all__ = ["Json", "Message", "messages"]

Json = dict[str, Any]


@attrs.frozen
class Message:
    """One message of a stream; ``reset`` means: forget what you have, the whole follows."""

    id: str
    """Where to go on after this message; empty when it cannot be resumed from here."""
    event: str
    data: Json = attrs.field(hash=False)


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """Read server-sent events; comments and unknown fields are skipped.

    Raises:
        UnreachableError: One holds no JSON.
    """
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            held = fields.get(name)
            joined = f"{held}\n{value}" if name == "data" and held is not None else value
            fields[name] = joined
        elif "data" in fields:
            yield _message(fields)
            fields = {}


def _message(fields: Mapping[str, str]) -> Message:
    try:
        data = json.loads(fields["data"])
    except (ValueError, RecursionError) as error:
        raise UnreachableError("a message of the stream is not JSON") from error
    return Message(fields.get("id", ""), fields.get("event", "message"), data)
