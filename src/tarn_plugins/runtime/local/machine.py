"""This machine's state: which processes belong to a cluster, and which ports are free.

Two instances never get the same port, and none gets a port on which a program listens.
"""

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.errors import LaunchError
from tarn.process_table import environment_of, pids_of
from tarn_plugins.runtime.local.keeper import start_ticks

__all__ = [
    "DIRECTORY_VARIABLE",
    "INSTANCE_VARIABLE",
    "LOOPBACK",
    "MASTER_VARIABLE",
    "Ports",
    "addresses",
    "alive",
    "holder",
    "is_free",
    "kill",
    "masters_of",
    "memory_mib",
    "outward",
    "processes_of",
    "refusal",
    "rss_mib",
    "start_ticks",
]

INSTANCE_VARIABLE = "TARN_INSTANCE"
# Every process of an instance has both variables, so that it is found even without a record.
DIRECTORY_VARIABLE = "TARN_CLUSTER_DIR"
# A keeper and its masters have it.
MASTER_VARIABLE = "TARN_MASTER_DIR"
_PROC = Path("/proc")
# The kernel's number for the state LISTEN, as /proc/net/tcp shows it.
_LISTEN = "0A"
_ROUND_MIB = 16

LOOPBACK = "127.0.0.1"
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 (compared with, never bound here)
# ``SIOCGIFADDR`` of Linux.
_GET_ADDRESS = 0x8915
# Well-known services use lower ports.
FIRST_FREE = 20_000
LAST = 65_535


@attrs.frozen
class InstanceProcess:
    """One process that belongs to an instance."""

    pid: int
    start: int
    """Clock ticks since boot; pid and start together identify a process for good."""
    instance_id: str
    leader: bool
    """Whether it leads its session: it is tritonserver, not one of its Python stubs."""


def alive(pid: int | None, start: int | None) -> bool:
    """Return whether the process *pid* that started at *start* runs and is not a zombie."""
    return pid is not None and start is not None and start_ticks(pid) == start


def processes_of(directory: Path) -> tuple[InstanceProcess, ...]:
    """Return this user's instance processes of the cluster in *directory*."""
    wanted = os.fsencode(directory)
    found = []
    for pid, start, environ in _mine():
        instance_id = environ.get(INSTANCE_VARIABLE.encode(), b"").decode(errors="replace")
        if instance_id and environ.get(DIRECTORY_VARIABLE.encode()) == wanted:
            with contextlib.suppress(ProcessLookupError):
                found.append(InstanceProcess(pid, start, instance_id, os.getsid(pid) == pid))
    return tuple(found)


def masters_of(directory: Path) -> tuple[tuple[int, int], ...]:
    """Return (pid, start) of each keeper and master of the cluster in *directory*."""
    wanted = os.fsencode(directory)
    return tuple(
        (pid, start)
        for pid, start, environ in _mine()
        if environ.get(MASTER_VARIABLE.encode()) == wanted
    )


def kill(pid: int, start: int) -> None:
    """Send SIGKILL to the process *pid* that started at *start*, never to another one."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            # After opening: if the start is still the same, the descriptor is of that very process.
            if start_ticks(pid) == start:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def memory_mib() -> int:
    """Return the machine's memory in MiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def holder(port: int) -> str:
    """Return name and pid of the process that listens on *port*; '' if unknown."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for entry in _PROC.glob("[0-9]*") if sockets else ():
        with contextlib.suppress(OSError):
            if sockets & set(_open_files(entry)):
                return f"{(entry / 'comm').read_text().strip()} (pid {entry.name})"
    return ""


def _mine() -> Iterator[tuple[int, int, dict[bytes, bytes]]]:
    """Yield (pid, start, environment) of this user's processes."""
    for pid in pids_of(os.getuid()):
        try:
            pairs, start = environment_of(pid), start_ticks(pid)
        except OSError as error:  # it ended while we looked, or cannot be read
            if shortage(error):  # a lack of descriptors does not mean that it is gone
                raise
            continue
        if start is not None:
            yield pid, start, dict(pair.partition(b"=")[::2] for pair in pairs)


def _open_files(entry: Path) -> Iterator[str]:
    for link in (entry / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield link.readlink().name


def _listening(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def rss_mib(pid: int) -> int | None:
    """Return the memory in MiB of *pid* and its descendants; None if it has ended.

    Memory that they share, also after a fork, is counted once.
    """
    held_kib, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        folder = _PROC / str(one)
        try:
            # The proportional set size gives each process its share of a shared page.
            lines = (folder / "smaps_rollup").read_text().splitlines()
            # Each thread lists only the children that it started itself.
            born = [(task / "children").read_text() for task in (folder / "task").iterdir()]
        except OSError:  # it ended while we looked
            if one == pid:
                return None
            continue
        held_kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        waiting += [int(child) for text in born for child in text.split()]
    # Rounded, so that the figure does not change at every measurement.
    return max(_ROUND_MIB, round(held_kib / 1024 / _ROUND_MIB) * _ROUND_MIB)


class Ports:
    """Hands out the ports of one address, and remembers which are taken."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._taken: set[int] = set()

    def reserve(self, preferred: int) -> int:
        """Return a free port: *preferred* or the next one above it; any port for 0.

        Raises:
            LaunchError: No port is free (code TARN-3103).
        """
        for port in range(preferred, LAST + 1) if preferred else _anywhere():
            if port not in self._taken and is_free(self._address, port):
                self._taken.add(port)
                return port
        above = f" from {preferred} upwards" if preferred else ""
        found = f"no port is free on {self._address}{above}"
        raise LaunchError("local", found, code="TARN-3103", retry_after_s=10.0)

    def owns(self, port: int) -> bool:
        """Return whether *port* was handed out and not released."""
        return port in self._taken

    def keep(self, ports: Iterable[int]) -> None:
        """Count *ports*, which an instance of an earlier master has, as taken."""
        self._taken.update(ports)

    def release(self, ports: Iterable[int]) -> None:
        """Release *ports*. Idempotent."""
        self._taken.difference_update(ports)


def refusal(address: str) -> str:
    """Return why no server can listen on *address* of this machine; '' if one can."""
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
            # ``struct ifreq``: the kernel keeps 15 bytes of a name.
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # this interface does not have an address
                answer = fcntl.ioctl(asking.fileno(), _GET_ADDRESS, request)
                # The address comes after 16 bytes of name, and 4 of family and port.
                own.add(socket.inet_ntoa(answer[20:24]))
    return (LOOPBACK, *sorted(own - {LOOPBACK}))


def is_free(address: str, port: int) -> bool:
    """Return whether a server could listen on *port* of *address* now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as probe:
        # Triton sets it, too, so a port in TIME_WAIT is free. With it, only `listen` fails for sure
        # on a port in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def outward(bind: str) -> str:
    """Return the address at which others reach a server that listens on *bind*.

    For a wildcard it is the address of this machine, or loopback without a network.
    """
    if bind not in _WILDCARDS:
        return bind
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # This sends nothing: the kernel only chooses the source address.
            probe.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK


def _anywhere() -> Iterator[int]:
    """Yield every port between well-known and ephemeral ones, starting at a random one."""
    try:
        ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        ephemeral = 32_768  # the default of Linux
    # Triton binds the port later than it is chosen here. The kernel takes the ports of outgoing
    # connections from the ephemeral range, so a port below it is unlikely to be gone by then.
    end = max(ephemeral, FIRST_FREE + 1_000)
    count = end - FIRST_FREE
    chance = secrets.randbelow(count)
    yield from (FIRST_FREE + (chance + step) % count for step in range(count))
