"""What HAProxy shows of its servers, read from its answers. Pure.

The formats are those of ``show servers state`` (version 1) and ``show stat`` (CSV), as HAProxy 2.6
writes them; columns are found by their names, so that later versions may add some.
"""

import csv
import ipaddress

import attrs

__all__ = ["BackendServer", "Load", "loads_in", "normalized", "servers_in"]

_MAINTENANCE = 0x01 | 0x02 | 0x20
"""Forced, inherited, or for want of an address. 0x04 says that it began so, and stays for ever."""
_DRAIN = 0x08 | 0x10
_CHECK_CONFIGURED = 0x02
_CHECK_ENABLED = 0x04


@attrs.frozen
class BackendServer:
    """One line of ``show servers state``."""

    name: str
    address: str
    """IP, normalized; what HAProxy shows where it is none."""
    port: int
    admin: int = 0x01
    """Bits of ``srv_admin_state``."""
    check: int = _CHECK_CONFIGURED
    """Bits of ``srv_check_state``."""
    check_port: int = 0
    """0: the port of the service."""
    weight: int = 1
    initial_weight: int = 1
    state: int = 0
    """``srv_op_state``: 0 is down, all others are kinds of up."""

    unchanged_s: int = 0
    """Seconds in this state."""
    tls: bool = False
    """Whether HAProxy speaks TLS to it."""

    @property
    def in_maintenance(self) -> bool:
        """Whether it gets nothing at all."""
        return bool(self.admin & _MAINTENANCE)

    @property
    def drains(self) -> bool:
        """Whether it gets nothing new, and finishes what it has."""
        return bool(self.admin & _DRAIN) and not self.in_maintenance

    @property
    def serves(self) -> bool:
        """Whether it gets traffic as soon as its check passes."""
        return not (self.in_maintenance or self.drains) and self.weight > 0

    @property
    def works(self) -> bool:
        """Whether it gets traffic now."""
        return self.serves and self.state != 0

    @property
    def has_check(self) -> bool:
        """Whether a health check is configured."""
        return bool(self.check & _CHECK_CONFIGURED)

    @property
    def is_checked(self) -> bool:
        """Whether the check runs (in maintenance: will run)."""
        return bool(self.check & _CHECK_ENABLED)


@attrs.frozen
class Load:
    """One line of ``show stat``: a server's, or the backend's own under the name BACKEND."""

    sessions: int
    """Requests or streams that it works on."""
    queued: int
    failed_connections: int
    """Requests that found no server, since HAProxy began."""


def normalized(address: str) -> str:
    """Return *address* in the one form in which two can be compared."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def servers_in(answer: str) -> tuple[BackendServer, ...]:
    """Read ``show servers state BACKEND``, in HAProxy's order.

    Raises:
        ValueError: It is no such answer, as the words "Can't find backend." are none.
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    if len(lines) < 2 or lines[0].strip() != "1" or not lines[1].startswith("#"):  # noqa: PLR2004
        raise ValueError(answer.strip() or "no answer")
    names = lines[1].lstrip("# ").split()
    return tuple(_server(dict(zip(names, line.split(), strict=False))) for line in lines[2:])


def _server(row: dict[str, str]) -> BackendServer:
    try:
        return BackendServer(
            name=row["srv_name"],
            address=normalized(row["srv_addr"]),
            port=int(row["srv_port"]),
            admin=int(row["srv_admin_state"]),
            check=int(row["srv_check_state"]),
            check_port=int(row.get("srv_check_port", "0")),
            weight=int(row["srv_uweight"]),
            initial_weight=int(row["srv_iweight"]),
            state=int(row["srv_op_state"]),
            unchanged_s=int(row["srv_time_since_last_change"]),
            tls=row.get("srv_use_ssl", "0") == "1",
        )
    except KeyError as missing:
        raise ValueError(f"no column {missing} in {' '.join(row)}") from missing


def loads_in(answer: str) -> dict[str, Load]:
    """Read ``show stat BACKEND 6 -1``: server's name, or BACKEND, to its load.

    Raises:
        ValueError: It is no such answer.
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    if not lines or not lines[0].startswith("#"):
        raise ValueError(answer.strip() or "no answer")
    rows = csv.DictReader([lines[0].lstrip("# "), *lines[1:]])
    return {
        row["svname"]: Load(
            sessions=int(row["scur"] or 0),
            queued=int(row["qcur"] or 0),
            failed_connections=int(row["econ"] or 0),
        )
        for row in rows
    }
