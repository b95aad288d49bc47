"""File descriptors, and which errors come of a lack of our own rather than of somebody else.

An instance, a master or a load balancer is never blamed for what this process lacks.
"""

import contextlib
import errno
import resource
from collections.abc import Iterator

__all__ = [
    "MOST_CONNECTIONS",
    "few",
    "from_before",
    "lack_in",
    "limit",
    "most",
    "most_connections",
    "needed",
    "raise_limit",
    "shortage",
]

HIGHEST = 1 << 20
"""Some libraries try to close every descriptor that they may have: a billion takes minutes."""
OWN = 96
"""What a master has open besides its instances and its API: libraries, logs, pipes, a JVM."""
OF_ONE = 6
"""An instance costs two connections, a pidfd, and more while it starts or drains."""
FEWEST_CONNECTIONS, MOST_CONNECTIONS = 16, 512
"""Of the master's API."""
_ONE_IN = 4
"""The part of all descriptors that the API may take."""
_FROM_BEFORE: list[tuple[int, int]] = []
_WORDS = {
    errno.EMFILE: "this process has as many files open as it may",
    errno.ENFILE: "this machine has as many files open as it can",
    errno.ENOBUFS: "this machine has no buffer for another connection",
    errno.ENOMEM: "this machine has no memory for it",
}
_STARTING = {
    errno.EAGAIN: "this user may not start another process or thread",
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "this user's disk quota is used up",
    errno.EFBIG: "this process may not write a longer file",
}


def limit() -> int:
    """Return how many descriptors this process may have open now."""
    return _bounded(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def most() -> int:
    """Return what `raise_limit` can reach."""
    return _bounded(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def raise_limit() -> int:
    """Raise the soft limit as far as this process may, and return it.

    Processes that this one starts should have the user's own limit: see `from_before`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _bounded(hard)
    if _bounded(soft) < wanted:
        with contextlib.suppress(OSError, ValueError):  # the kernel's own limit is lower than ours
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            if not _FROM_BEFORE:
                _FROM_BEFORE.append((soft, hard))
    return limit()


def from_before(pid: int) -> None:
    """Give the process *pid*, which we have just started, the limits from before `raise_limit`.

    Its user may have chosen them, and a program that waits with ``select`` fails beyond 1024.
    """
    for limits in _FROM_BEFORE:
        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        except OSError:  # it has ended, or is no longer ours
            return


def most_connections(descriptors: int) -> int:
    """Return how many connections the master's API takes where there are *descriptors*."""
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, descriptors // _ONE_IN))


def needed(instances: int) -> int:
    """Return how many descriptors a master of so many *instances* needs."""
    return (OWN + OF_ONE * instances) * _ONE_IN // (_ONE_IN - 1)


def few(instances: int, descriptors: int) -> str:
    """Say that *descriptors* are too few for a master of *instances*; empty when they are not."""
    want = needed(instances)
    if descriptors >= want:
        return ""
    each = "1 instance" if instances == 1 else f"{instances} instances"
    return f"may open {descriptors} files; a master of {each} needs {want}"


def shortage(error: BaseException, *, starting: bool = False) -> str:
    """Say what this process or machine lacked, when that is why *error* was raised; else ''.

    Args:
        error: The errors that it comes of are looked at, too.
        starting: It comes of starting something: a process, a thread, a file.
    """
    for one in _chain(error):
        if found := lack_in(one, starting=starting):
            return found
        # Python has no class of its own for it
        if starting and isinstance(one, RuntimeError) and "start new thread" in str(one):
            return _STARTING[errno.EAGAIN]
    return ""


def lack_in(error: BaseException, *, starting: bool = False) -> str:
    """Say what was lacking by *error* alone, whatever it comes of; see `shortage`."""
    number = (error.errno or 0) if isinstance(error, OSError) else 0
    found = _WORDS.get(number) or (_STARTING.get(number, "") if starting else "")
    if number == errno.EMFILE:
        return f"{found} ({limit()}; ulimit -n)"
    if starting and number == errno.EFBIG:
        return f"{found} ({resource.getrlimit(resource.RLIMIT_FSIZE)[0]} bytes; ulimit -f)"
    return found


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__context__, one.__cause__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _bounded(count: int) -> int:
    return HIGHEST if count == resource.RLIM_INFINITY else min(count, HIGHEST)
