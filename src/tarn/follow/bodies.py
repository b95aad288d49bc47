"""No answer to a client fills its memory: whoever listens at a master's address may be anybody."""

from collections.abc import Iterator

import httpx

from tarn.errors import UnreachableError

__all__ = ["EVENT_STREAM", "MOST_BYTES", "bound"]

MOST_BYTES = 64 * 2**20
"""Of one answer. The status of 2,000 instances takes 2 MiB, their metrics some more."""
EVENT_STREAM = "text/event-stream"


def bound(response: httpx.Response) -> None:
    """Let the body of *response*, which was not read yet, end in an error beyond `MOST_BYTES`.

    A stream of events has no end: there it is the bound of one message.

    Raises:
        UnreachableError: It is compressed, though nobody asked for that: little can become much.
    """
    where = str(response.request.url)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnreachableError("the answer is compressed; a master's never is", where=where)
    asked = response.request.headers.get("accept")
    streams = asked == EVENT_STREAM and response.status_code == httpx.codes.OK
    assert isinstance(response.stream, httpx.SyncByteStream)
    response.stream = _Bounded(response.stream, where, b"\n\n" if streams else None)


class _Bounded(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream, where: str, end: bytes | None) -> None:
        self._inner, self._where, self._end = inner, where, end

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._inner:
            size += len(part)
            if size > MOST_BYTES:
                found = f"the answer is longer than {MOST_BYTES >> 20} MiB; a master's never is"
                raise UnreachableError(found, where=self._where)
            yield part
            if self._end is not None and self._end in part:
                size = 0

    def close(self) -> None:
        self._inner.close()
