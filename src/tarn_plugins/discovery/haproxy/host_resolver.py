"""Look up host names, because HAProxy's Runtime API takes addresses only.

A look-up may hang for many seconds, so it runs on a thread of its own, and the caller says how long
to wait. The cache keeps each answer, and returns the old one while it is looked up again and while
the name service is away. If a host has several addresses, it keeps returning the same one.
"""

import ipaddress
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import attrs

from tarn.interfaces import Clock
from tarn_plugins.discovery.haproxy.runtime_messages import normalized

__all__ = ["HostResolver", "ResolvedHosts", "addresses_of"]

_FRESH_S = 30.0  # an answer is not looked up again before
_FAILED_S = 1.0  # the same for a host without an address: it may appear at any moment
_WORKERS = 8  # look-ups at once: one host whose name server hangs must not delay the others


def addresses_of(host: str) -> tuple[str, ...]:
    """Return the system's addresses of *host*, IPv4 first; may hang.

    Raises:
        OSError: The host does not exist, or the name service does not answer.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


@attrs.frozen
class ResolvedHosts:
    """The addresses of several hosts."""

    addresses: Mapping[str, str]
    missing: Mapping[str, str]
    """Host to the reason why it has no address."""


@attrs.frozen
class _Answer:
    addresses: tuple[str, ...]
    fresh_until_s: float
    why: str = ""


class HostResolver:
    """A cache of addresses. Any thread may use it.

    Its threads, at most eight, end when nothing is left to look up.
    """

    def __init__(
        self, clock: Clock, look_up: Callable[[str], tuple[str, ...]] = addresses_of
    ) -> None:
        self._clock = clock
        self._look_up = look_up
        self._changed = threading.Condition()
        self._known: dict[str, _Answer] = {}
        self._given: dict[str, str] = {}
        self._asked: set[str] = set()
        self._queue: deque[str] = deque()
        self._workers = 0

    def find(self, hosts: Iterable[str], within_s: float) -> ResolvedHosts:
        """Return the address of each host; a host not known within *within_s* is missing."""
        names = set(hosts)
        addresses = {host: normalized(host) for host in names if _is_address(host)}
        with self._changed:
            for host in sorted(names - addresses.keys()):
                self._want(host)
            self._changed.wait_for(lambda: names <= self._known.keys() | addresses.keys(), within_s)
            missing = {}
            for host in names - addresses.keys():
                answer = self._known.get(host, _Answer((), 0.0, f"no answer in {within_s:g} s"))
                if not answer.addresses:
                    missing[host] = answer.why
                    continue
                before = self._given.get(host)  # another address would move the server
                self._given[host] = before if before in answer.addresses else answer.addresses[0]
                addresses[host] = self._given[host]
        return ResolvedHosts(addresses, missing)

    def _want(self, host: str) -> None:
        known = self._known.get(host)
        fresh = known is not None and known.fresh_until_s > self._clock.now_s()
        if fresh or host in self._asked:
            return
        self._asked.add(host)
        self._queue.append(host)
        if self._workers < _WORKERS:
            self._workers += 1
            threading.Thread(target=self._work, name="tarn-haproxy-names", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._workers -= 1
                    return
                host = self._queue.popleft()
            answer = self._ask(host)
            with self._changed:
                old = self._known.get(host)
                if old is not None and old.addresses and not answer.addresses:
                    answer = attrs.evolve(old, fresh_until_s=answer.fresh_until_s)
                self._known[host] = answer
                self._asked.discard(host)
                self._changed.notify_all()

    def _ask(self, host: str) -> _Answer:
        try:
            found = tuple(normalized(address) for address in self._look_up(host))
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return _Answer((), self._clock.now_s() + _FAILED_S, why)
        return _Answer(found, self._clock.now_s() + _FRESH_S, "it has no address")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
