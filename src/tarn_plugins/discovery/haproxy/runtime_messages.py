"""Commands for HAProxy's Runtime API, and the readers of its answers. Pure.

HAProxy answers every command with a text and never with a status; most commands print nothing when
they succeed. `complaint` reads the answer, so that no failure counts as a success.
"""

# haproxyadmin reads `show stat`. `show servers state` (version 1, as HAProxy 2.6 writes it) is read
# here: `show stat` has neither the port of a check, nor whether the check is enabled, nor why a
# server is in maintenance. Columns are found by their names, so that later versions may add some.

import enum
import ipaddress

import attrs
from haproxyadmin.utils import CSVLine, stat2dict

__all__ = [
    "BackendServer",
    "ExpectedReply",
    "Load",
    "RuntimeCommand",
    "complaint",
    "loads_in",
    "normalized",
    "servers_in",
]


class ExpectedReply(enum.Enum):
    """The texts by which HAProxy confirms a command; any of them will do."""

    NOTHING = ()
    ADDED = ("New server registered",)
    # open connections are not an error: the server is deleted a moment later
    DELETED = ("Server deleted", "still has connections", "No such server")
    MOVED = ("changed from", "no need to change")


@attrs.frozen
class RuntimeCommand:
    """One command."""

    server: str
    """The name of the server that it changes."""
    text: str
    good: ExpectedReply = ExpectedReply.NOTHING


def complaint(order: RuntimeCommand, answer: str) -> str:
    """Return HAProxy's complaint in its *answer* to *order*; '' if there is none."""
    said = answer.strip()
    if not order.good.value:
        return said
    return "" if any(words in said for words in order.good.value) else (said or "no answer")


# Forced, inherited, or without an address. 0x04 means that the server started in maintenance; that
# bit is never cleared.
_MAINTENANCE = 0x01 | 0x02 | 0x20
_DRAIN = 0x08 | 0x10
_CHECK_CONFIGURED = 0x02
_CHECK_ENABLED = 0x04


@attrs.frozen
class BackendServer:
    """One line of ``show servers state``."""

    name: str
    address: str
    """IP, normalized; if it is not an IP, what HAProxy shows."""
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
    number: int = 0
    """Its id in HAProxy, which the entries of stick tables name."""

    @property
    def in_maintenance(self) -> bool:
        """Whether it gets no traffic at all."""
        return bool(self.admin & _MAINTENANCE)

    @property
    def drains(self) -> bool:
        """Whether it gets no new requests, and finishes those that it has."""
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
    """One line of ``show stat``, for a server or for the whole backend."""

    sessions: int
    """Requests and streams that are being served."""
    queued: int
    failed_connections: int
    """Requests that found no server, since HAProxy started."""


def normalized(address: str) -> str:
    """Return *address* in the form in which two can be compared."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def servers_in(answer: str) -> tuple[BackendServer, ...]:
    """Return the servers in an answer to ``show servers state BACKEND``, in its order.

    Raises:
        ValueError: It is another answer, such as "Can't find backend."
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
            number=int(row.get("srv_id", "0")),
        )
    except KeyError as missing:
        raise ValueError(f"no column {missing} in {' '.join(row)}") from missing


def loads_in(answer: str) -> dict[str, Load]:
    """Return the loads in an answer to ``show stat``: server's name, or BACKEND, to load.

    Raises:
        ValueError: It is another answer.
    """
    lines = answer.splitlines()
    if not lines or not lines[0].startswith("# "):
        raise ValueError(answer.strip() or "no answer")
    loads: dict[str, Load] = {}
    for backend in stat2dict(lines)["backends"].values():
        rows = dict(backend["servers"])
        if "stats" in backend:
            rows["BACKEND"] = backend["stats"]
        loads |= {name: _load(row) for name, row in rows.items()}
    return loads


def _load(row: CSVLine) -> Load:
    # read at once: haproxyadmin keeps the names of the columns for the whole process
    try:
        return Load(int(row.scur or 0), int(row.qcur or 0), int(row.econ or 0))
    except IndexError as error:
        raise ValueError(f"a row is cut short: {','.join(row.parts)}") from error
