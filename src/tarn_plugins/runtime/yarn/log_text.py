"""The logs inside what Hadoop prints of them. Pure.

Both a NodeManager's web server and Hadoop's reader of collected logs print, for each file::

    Container: container_… on host_port
    LogAggregationType: LOCAL
    ===============
    LogType:master.stderr
    LogLastModifiedTime:…
    LogLength:1234
    LogContents:
    <1234 bytes>
    End of LogType:master.stderr
"""

import re
from collections.abc import Iterator

__all__ = ["contents"]

_HEAD = re.compile(
    rb"^LogType:(?P<name>[^\n]*)\n(?:(?!LogType:|LogContents:)[^\n]*\n)*?"
    rb"LogLength:(?P<length>\d+)\n(?:(?!LogType:|LogContents:)[^\n]*\n)*?LogContents:\n",
    re.MULTILINE,
)


def contents(printed: bytes, most: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, its bytes) of each file in *printed*, in the order printed.

    The length counts, not the marks at the end: a log may hold such marks itself. It is that of
    the whole file, also where only the last *most* bytes were asked for.
    """
    at = 0
    while (head := _HEAD.search(printed, at)) is not None:
        length = int(head["length"])
        at = head.end() + (length if most is None else min(length, most))
        yield head["name"].decode(errors="replace").strip(), printed[head.end() : at]
