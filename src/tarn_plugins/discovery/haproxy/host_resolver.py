"""Host names to addresses: HAProxy's Runtime API takes addresses only, so we look them up.

A look-up may hang for many seconds, so it runs on a thread of its own, and whoever asks waits for
no longer than it says. Answers are kept; an old one is used while it is looked up again, and while
the name service is away. Of several addresses the one that was given before is given again.
"""

import ipaddress
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import attrs

from tarn.interfaces import Clock
from tarn_plugins.discovery.haproxy.stats_parser import normalized

__all__ = ["HostResolver", "ResolvedHosts", "addresses_of"]

_FRESH_S = 30.0
"""For which an answer is not asked again."""
_FAILED_S = 1.0
"""The same, for a name that has no address."""
_WORKERS = 8


def addresses_of(host: str) -> tuple[str, ...]:
    """Ask the system; IPv4 first. On a thread that may hang.

    Raises:
        OSError: There is no such host, or the name service does not answer.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


@attrs.frozen
class ResolvedHosts:
    """The answer for many hosts at once."""

    addresses: Mapping[str, str]
    missing: Mapping[str, str]
    """Host to why it has no address."""


@attrs.frozen
class _Answer:
    addresses: tuple[str, ...]
    fresh_until_s: float
    why: str = ""


class HostResolver:
    """A cache of addresses. Any thread.

    Its threads, at most eight, end by themselves when nothing is left to look up.
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
        """Return the address of each host; one that is not known in *within_s* is missing."""
        names = set(hosts)
        addresses = {host: normalized(host) for host in names if _is_address(host)}
        with self._changed:
            for host in sorted(names - addresses.keys()):
                self._want(host)
            self._changed.wait_for(lambda: names <= self._known.keys() | addresses.keys(), within_s)
            missing = {}
            for host in names - addresses.keys():
                answer = self._known.get(host, _Answer((), 0.0, f"no answer in {within_s:g} s"))
                if answer.addresses:
                    addresses[host] = self._same_again(host, answer.addresses)
                else:
                    missing[host] = answer.why
        return ResolvedHosts(addresses, missing)

    def _same_again(self, host: str, addresses: tuple[str, ...]) -> str:
        before = self._given.get(host)
        given = before if before in addresses else addresses[0]
        self._given[host] = given
        return given

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
