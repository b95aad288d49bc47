"""Limits of file descriptors, and errors that are due to a lack on this machine.

Such an error must not be blamed on an instance, a master or a load balancer.
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

# Some libraries try to close every possible descriptor, which takes minutes for a billion.
HIGHEST = 1 << 20
# Descriptors of a master besides its instances and its API: libraries, logs, pipes, a JVM.
OWN = 96
# Descriptors for one instance: two connections, a pidfd, and more while it starts or drains.
OF_ONE = 6
FEWEST_CONNECTIONS, MOST_CONNECTIONS = 16, 512
"""Connections of the master's API, whatever the limit of descriptors."""
# The API may use one in so many descriptors.
_ONE_IN = 4
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
        with contextlib.suppress(OSError, ValueError):  # the kernel's own limit may be lower
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            if not _FROM_BEFORE:
                _FROM_BEFORE.append((soft, hard))
    return limit()


def from_before(pid: int) -> None:
    """Restore the limits from before `raise_limit` for *pid*, which this process started."""
    # The user may have chosen them, and a program that uses select() fails beyond 1024.
    for limits in _FROM_BEFORE:
        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        except OSError:  # it has ended, or is no longer ours
            return


def most_connections(descriptors: int) -> int:
    """Return how many connections the master's API accepts with this limit of descriptors."""
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, descriptors // _ONE_IN))


def needed(instances: int) -> int:
    """Return how many descriptors a master with *instances* needs."""
    return (OWN + OF_ONE * instances) * _ONE_IN // (_ONE_IN - 1)


def few(instances: int, descriptors: int) -> str:
    """Return a phrase if *descriptors* are too few for a master with *instances*, else ''."""
    want = needed(instances)
    if descriptors >= want:
        return ""
    each = "1 instance" if instances == 1 else f"{instances} instances"
    return f"may open {descriptors} files; a master of {each} needs {want}"


def shortage(error: BaseException, *, starting: bool = False) -> str:
    """Return what this process or machine lacked, if that caused *error*; else ''.

    Args:
        error: Its causes and contexts are examined as well.
        starting: Whether a process, a thread or a file was being created.
    """
    for one in _chain(error):
        if found := lack_in(one, starting=starting):
            return found
        # Python has no special class for this error.
        if starting and isinstance(one, RuntimeError) and "start new thread" in str(one):
            return _STARTING[errno.EAGAIN]
    return ""


def lack_in(error: BaseException, *, starting: bool = False) -> str:
    """Return what was lacking according to *error* alone, without its causes; else ''."""
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
