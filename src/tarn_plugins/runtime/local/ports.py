"""Free ports: never the same for two instances, and never one that somebody listens on."""

import contextlib
import fcntl
import secrets
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from tarn.errors import LaunchError

__all__ = ["Ports", "addresses", "is_free", "outward", "refusal"]

LOOPBACK = "127.0.0.1"
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 (compared with, never bound here)
_GET_ADDRESS = 0x8915
"""``SIOCGIFADDR`` of Linux."""
FIRST_FREE = 20_000
"""Below it live the services that people know by number."""
LAST = 65_535


class Ports:
    """Hands out ports of one address, and remembers to whom they belong.

    Between here and Triton's own ``bind`` the port is nobody's; ports are taken from below the
    range that the kernel uses for outgoing connections, so that none of these slips in.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._taken: set[int] = set()

    def reserve(self, preferred: int) -> int:
        """Return a free port: *preferred* or the next one above it; any for 0.

        Raises:
            LaunchError: There is none (code TARN-3103).
        """
        for port in _upwards(preferred) if preferred else _anywhere():
            if port not in self._taken and is_free(self._address, port):
                self._taken.add(port)
                return port
        above = f" from {preferred} upwards" if preferred else ""
        found = f"no port is free on {self._address}{above}"
        raise LaunchError("local", found, code="TARN-3103", retry_after_s=10.0)

    def owns(self, port: int) -> bool:
        """Say whether *port* was handed out, and is not back yet."""
        return port in self._taken

    def keep(self, ports: Iterable[int]) -> None:
        """Count *ports* as taken: they belong to an instance of an earlier master."""
        self._taken.update(ports)

    def release(self, ports: Iterable[int]) -> None:
        """Give *ports* back. Idempotent."""
        self._taken.difference_update(ports)


def refusal(address: str) -> str:
    """Say why no server can listen on *address* of this machine; nothing where one can."""
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return "is a name that this machine does not know"
    for family, kind, protocol, _, where in found:
        try:
            with contextlib.closing(socket.socket(family, kind, protocol)) as probe:
                probe.bind(where)
        except OSError:
            continue
        return ""
    return "is not an address of this machine"


def addresses() -> tuple[str, ...]:
    """Return the IPv4 addresses of this machine, the loopback one first."""
    own = set()
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # one without an address
                answer = fcntl.ioctl(asking.fileno(), _GET_ADDRESS, request)
                own.add(socket.inet_ntoa(answer[20:24]))
    return (LOOPBACK, *sorted(own - {LOOPBACK}))


def is_free(address: str, port: int) -> bool:
    """Return whether a server could listen on *port* of *address* now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as probe:
        # As Triton does: a port in TIME_WAIT is free. Only `listen` tells for certain then.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def outward(bind: str) -> str:
    """Return the address under which others reach what listens on *bind*.

    For a wildcard that is this machine's own address, or loopback without a network.
    """
    if bind not in _WILDCARDS:
        return bind
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel only picks the source address.
            probe.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK


def _upwards(first: int) -> Iterator[int]:
    yield from range(first, LAST + 1)


def _anywhere() -> Iterator[int]:
    """Yield every port between the known services and the kernel's own, from a chance one on."""
    end = max(_first_ephemeral(), FIRST_FREE + 1_000)
    count = end - FIRST_FREE
    chance = secrets.randbelow(count)
    yield from (FIRST_FREE + (chance + step) % count for step in range(count))


def _first_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
