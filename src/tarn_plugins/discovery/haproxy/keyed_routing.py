"""The lines of a ``haproxy.cfg`` for requests that belong together, and for those that wait. Pure.

`tarn_door.lua` finds a request's key. Requests with a key go to a backend of their own, where a
consistent hash chooses the server and a stick table remembers it; all others go where the fewest
are in hand. While there is no server, requests wait, a bounded number for a bounded time.
"""

import re
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import ConfigError
from tarn_plugins.discovery.haproxy.affinity_text import (
    AFFINITY_VARIABLE,
    BOUNDED_SUFFIX,
    EXPIRE_S,
    FILLED_VARIABLE,
    HELD_TABLE,
    KEY_TABLE,
    KEYED_SUFFIX,
    NO_RULES,
)

__all__ = [
    "DOOR_LUA",
    "HELD_PATHS",
    "KeyedRouting",
    "begin_line",
    "bounded_backend",
    "door_text",
    "key_lines",
    "keyed_backend",
]

DOOR_LUA = "tarn_door.lua"
_PATH = re.compile(r"/[A-Za-z0-9_./@+=-]{1,1023}")
_PEER = "tarn"
_UPLOAD_S = 20  # for the head of a body: 15 KB at less than 1 KB/s is not a client to wait for
# A buffer has 16 KB, less headers: the wait ends when it is full, which tarn_door.lua calls 15 KB.
_HEAD_BYTES = 15_000
_LONGEST_HOLD_S = 3600


def _refuse(field: str, value: object, right: str) -> ConfigError:
    return ConfigError(f"{field} is {value!r}", where="haproxy.cfg", right=right)


def _path(_routing: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        right = "Use an absolute path of letters, digits and '_./@+=-'."
        raise _refuse(field.name, value, right)


def _number(least: int, most: int) -> Any:
    def check(_routing: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise _refuse(field.name, value, f"Use a whole number from {least} to {most}.")

    return check


def _percent(_routing: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
    if value != 0:
        _number(101, 1000)(_routing, field, value)


@attrs.frozen(kw_only=True)
class KeyedRouting:
    """How requests that belong together find their server, and how long a request may wait.

    Raises:
        ConfigError: A value would not be a single word in the file.
    """

    door_lua: str = attrs.field(validator=_path)
    """Path at which HAProxy reads `DOOR_LUA`."""
    hold_s: int = attrs.field(default=60, validator=_number(0, _LONGEST_HOLD_S))
    """Seconds for which a request waits while there is no server; 0: none waits."""
    hold_most: int = attrs.field(default=200, validator=_number(1, 100_000))
    """Requests that may wait at once."""
    imbalance: int = attrs.field(default=0, validator=_percent)
    """The most load of an instance, in percent of the mean, of requests whose key only makes them
    faster; beyond it the next instance is taken. 0: no bound. 101 to 1000."""
    peers_port: int = attrs.field(default=8406, validator=_number(0, 65535))
    """Port at 127.0.0.1 by which a reloaded HAProxy gets the table from the old one; 0: it begins
    with an empty table."""

    def global_lines(self, *, alone: bool) -> list[str]:
        """Return the lines for the section ``global``.

        Args:
            alone: Whether no other Lua is loaded. HAProxy 2.6 loses actions where some files are
                loaded once, and others for each thread; for each thread, none waits for another.
        """
        way = "lua-load-per-thread" if alone else "lua-load"
        return [
            "  # the agent tells it which requests belong together",
            f"  {way} {self.door_lua}",
            *([f"  localpeer {_PEER}"] if self.peers_port else []),
        ]

    def backends_of(self, backend: str, protocol: str) -> tuple[str, ...]:
        """Return the names of the backends for requests with a key, next to *backend*."""
        bounded = (f"{backend}{BOUNDED_SUFFIX}",) if self.imbalance and protocol == "http" else ()
        return (f"{backend}{KEYED_SUFFIX}", *bounded)

    @property
    def tables(self) -> str:
        """The sections that remember which server has which sequence, and count who waits."""
        peers = f" peers {_PEER}_peers" if self.peers_port else ""
        told = ""
        if self.peers_port:
            told = f"""\
# after a reload the new process gets the table below from the old one
peers {_PEER}_peers
  peer {_PEER} 127.0.0.1:{self.peers_port}

"""
        return f"""\
{told}# which server has which sequence; gpt0 is 1 once it ended
backend {KEY_TABLE}
  stick-table type string len 64 size 100k expire {EXPIRE_S}s store gpt0{peers}

# how many requests wait for a server: the agent reports them, each once
backend {HELD_TABLE}
  stick-table type string len 32 size 16 store conn_cur"""


HELD_PATHS = {
    "http": "^/v2/models/[^/]+(/versions/[0-9]+)?(/(infer|generate|generate_stream|config))?$",
    "grpc": "^/inference[.]GRPCInferenceService/Model(Infer|StreamInfer|Metadata|Config)$",
}
"""What may wait for an instance: a question about health or readiness has its answer at once."""


def door_text() -> str:
    """Return the Lua program, which is the same for every installation."""
    return Path(__file__).with_name(DOOR_LUA).read_text("ascii")


def begin_line(protocol: str) -> str:
    """Return the first line of a frontend: what the headers say, before any is removed."""
    return (
        f"  http-request lua.tarn_begin {protocol} unless "
        f"{{ var({AFFINITY_VARIABLE}) -m str {NO_RULES} }}"
    )


_HTTP_REFUSAL = """\
http-request return status 400 content-type application/json \
lf-string '{"error":"%[var(txn.tarn_refusal)]"}'"""
# gRPC's own form of an error, 3 is INVALID_ARGUMENT
_GRPC_REFUSAL = """\
http-request return status 200 hdr grpc-status 3 \
hdr grpc-message %[var(txn.tarn_refusal)]"""

# an answer without a body gets it only so
_GRPC_KIND = """\
  http-after-response set-header content-type application/grpc if \
{ var(txn.tarn_refusal) -m found }"""


def key_lines(protocol: str, backend: str, routing: KeyedRouting) -> list[str]:
    """Return the lines of a frontend that find the key, let the request wait, and choose.

    Args:
        protocol: ``http`` or ``grpc``.
        backend: The backend for requests without a key.
        routing: How requests are routed.
    """
    keyed, refusal = f"{backend}{KEYED_SUFFIX}", _HTTP_REFUSAL
    if protocol == "grpc":
        refusal = _GRPC_REFUSAL
    return [
        "  # which requests belong together: by a header, or by the head of the body; what cannot",
        "  # be read is refused, as it could reach an instance that knows nothing of it",
        "  acl reads var(txn.tarn_reads) -m bool",
        "  acl has_key var(txn.tarn_key) -m found",
        f"  http-request wait-for-body time {_UPLOAD_S}s at-least {_HEAD_BYTES} if reads",
        f"  http-request lua.tarn_key {protocol} if reads",
        f"  {refusal} if {{ var(txn.tarn_refusal) -m found }}",
        *([_GRPC_KIND] if protocol == "grpc" else []),
        "  # a new process waits until its servers are there, else a sequence would find another",
        "  http-request lua.tarn_wait_filled if has_key !{ var(" + FILLED_VARIABLE + ") -m found }",
        *_hold(protocol, backend, routing),
        *(
            f"  use_backend {one} if {{ var(txn.tarn_bounded) -m bool }}"
            for one in routing.backends_of(backend, protocol)[1:]
        ),
        f"  use_backend {keyed} if has_key",
    ]


def _hold(protocol: str, backend: str, routing: KeyedRouting) -> list[str]:
    if not routing.hold_s:
        return []
    keyed = f"{backend}{KEYED_SUFFIX}"
    few = f"{{ sc_conn_cur(2) le {routing.hold_most} }}"
    lines = [
        "  # while there is no server a request waits, some at once; the others get 503",
        f"  acl holds path_reg {HELD_PATHS[protocol]}",
        f"  acl no_server nbsrv({backend}) eq 0",
        f"  acl no_keyed nbsrv({keyed}) eq 0",
    ]
    for name, when in ((backend, "no_server !has_key"), (keyed, "no_keyed has_key")):
        lines += [
            f"  http-request track-sc2 str({protocol}) table {HELD_TABLE} if {when} holds",
            f"  http-request lua.tarn_hold {name} {routing.hold_s} if {when} holds {few}",
        ]
    return lines


def keyed_backend(backend: str, health: str, servers: list[str], more: tuple[str, ...] = ()) -> str:
    """Return the backend for requests with a key, next to *backend*.

    Args:
        backend: The name of the backend for all other requests.
        health: The lines of its health check.
        servers: The lines of its servers.
        more: Further lines.
    """
    sticks = "if { var(txn.tarn_stick) -m found }"
    return "\n".join(
        [
            f"# requests that belong together: the same servers as in {backend}",
            f"backend {backend}{KEYED_SUFFIX}",
            "  # two requests of a new sequence at once find the same server, too",
            "  balance hash var(txn.tarn_key)",
            "  hash-type consistent",
            "  # a sequence stays where it is while servers come, and while its own one drains",
            f"  stick on var(txn.tarn_stick) table {KEY_TABLE} {sticks}",
            f"  http-request track-sc1 var(txn.tarn_stick) table {KEY_TABLE} {sticks}",
            f"  http-request sc-set-gpt0(1) 0 {sticks}",
            "  http-response sc-set-gpt0(1) 1 if { var(txn.tarn_end) -m bool }",
            *more,
            health,
            *servers,
        ]
    )


def bounded_backend(name: str, imbalance: int, health: str, servers: list[str]) -> str:
    """Return the backend *name* for requests that another instance can answer as well.

    Args:
        name: The name of the backend.
        imbalance: The most load of a server, in percent of the mean.
        health: The lines of its health check.
        servers: The lines of its servers.
    """
    return "\n".join(
        [
            "# requests that are faster where others like them were; another instance may answer",
            f"backend {name}",
            "  balance hash var(txn.tarn_key)",
            "  hash-type consistent",
            f"  hash-balance-factor {imbalance}",
            health,
            *servers,
        ]
    )
