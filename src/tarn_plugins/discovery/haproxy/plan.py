"""Plan the commands that make a HAProxy backend serve exactly the wanted instances. Pure.

The state that HAProxy shows is the only memory. A server in drain is one that leaves, regardless of
who drained it, so a restarted agent continues where the last one stopped.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import attrs

from tarn.domain.endpoint import host_port
from tarn_plugins.discovery.haproxy.affinity_text import KEY_TABLE, server_number
from tarn_plugins.discovery.haproxy.runtime_messages import (
    BackendServer,
    ExpectedReply,
    Load,
    RuntimeCommand,
)

__all__ = ["BackendPlan", "HaproxyBackend", "WantedServer", "ours", "plan"]

_FULL = 100  # the weight of a member that gets a full share
_FIRST_CHECK_S = 5  # twice HAProxy's default `inter` and a second: the first check is over by then
_HEAVIEST = 256  # HAProxy's largest weight


@attrs.frozen
class HaproxyBackend:
    """One backend, and the parameters of servers that are added to it."""

    name: str
    parameters: str = "check"
    """The parameters of ``add server``, except for the port of the check."""
    checks_elsewhere: bool = False
    """Whether checks go to another port than requests: gRPC servers are checked over HTTP."""
    keyed: bool = False
    """Whether it gets requests with a key, whose servers HAProxy remembers."""


@attrs.frozen
class WantedServer:
    """One instance, as one backend should have it."""

    instance_id: str
    address: str
    """IP, normalized."""
    port: int
    check_port: int
    weight: int = _FULL
    """100: a full share."""


@attrs.frozen
class BackendPlan:
    """The commands for one backend, and what they cannot achieve."""

    orders: tuple[RuntimeCommand, ...] = ()
    without_slot: tuple[str, ...] = ()
    """Instance ids without a free slot."""
    leaving: tuple[BackendServer, ...] = ()
    """Servers that drain, or will once the orders are carried out."""
    held: tuple[BackendServer, ...] = ()
    """Servers that stay until another one works."""


def ours(slots: str, fleet: str) -> Callable[[str], bool]:
    """Return a test of a server's name that is true for the fleet's own servers.

    Args:
        slots: Prefix of the placeholders' names; empty: servers are named by instance ids.
        fleet: The cluster's name; empty: any name ``<name>-<nnnn>`` is the fleet's.
    """
    if slots:
        return lambda name: name.startswith(slots)
    pattern = re.compile(rf"{re.escape(fleet) if fleet else '.+'}-[0-9]{{4,}}")
    return lambda name: pattern.fullmatch(name) is not None


def plan(  # noqa: PLR0913 (the whole situation)
    backend: HaproxyBackend,
    wanted: Iterable[WantedServer],
    shown: Iterable[BackendServer],
    loads: dict[str, Load],
    *,
    slots: bool,
    remove: bool,
    hold: bool = False,
    entries: Mapping[int, int] | None = None,
) -> BackendPlan:
    """Return the next step from *shown* to *wanted*; it is empty when they agree.

    Args:
        backend: The backend.
        wanted: The instances that it should have.
        shown: The fleet's own servers in it.
        loads: Server's name to load; a server without one is not removed yet.
        slots: Whether the servers are placeholders, which are never added or deleted.
        remove: Whether the view is complete, so that servers that it does not name leave.
        hold: Whether leaving servers may stay until one that remains works.
        entries: Server's number to the sequences that it still has; it stays while there are any.
    """
    shown = tuple(shown)
    placed, without = (
        _in_slots(wanted, shown) if slots else ({one.instance_id: one for one in wanted}, ())
    )
    known = {server.name: server for server in shown}
    orders: list[RuntimeCommand] = []
    for name, one in placed.items():
        orders += _keep(backend, one, known[name]) if name in known else _add(backend, one)
    extra = [s for s in shown if s.name not in placed] if remove else []
    # No server leaves before one that remains works: if a view replaced all instances at once,
    # clients would meet a backend without servers until the first good check.
    alone = bool(placed) and not any(s.works and s.name in placed for s in shown)
    held = tuple(s for s in extra if s.works) if hold and alone else ()
    extra = [s for s in extra if s not in held]
    for server in extra:
        busy = backend.keyed and server.state != 0 and (entries or {}).get(server.number, 0) > 0
        orders += _leave(backend, server, loads.get(server.name), slots=slots, busy=busy)
    leaving = tuple(s for s in extra if not s.in_maintenance or not slots)
    return BackendPlan(tuple(orders), without, leaving, held)


def _in_slots(
    wanted: Iterable[WantedServer], shown: tuple[BackendServer, ...]
) -> tuple[dict[str, WantedServer], tuple[str, ...]]:
    """Give each instance the slot that has its address, else a free one."""
    placed: dict[str, WantedServer] = {}
    homeless = []
    for one in wanted:
        here = [s for s in shown if s.name not in placed and _is_at(s, one)]
        if here:
            placed[min(here, key=lambda s: (not s.serves, s.in_maintenance)).name] = one
        else:
            homeless.append(one)
    free = [s.name for s in shown if s.in_maintenance and s.name not in placed]
    placed.update(zip(free, homeless, strict=False))
    return placed, tuple(one.instance_id for one in homeless[len(free) :])


def _is_at(server: BackendServer, one: WantedServer) -> bool:
    return (server.address, server.port) == (one.address, one.port)


def _add(backend: HaproxyBackend, one: WantedServer) -> list[RuntimeCommand]:
    name = one.instance_id
    check = f" port {one.check_port}" if backend.checks_elsewhere else ""
    weight, place = _weight(one, _FULL), host_port(one.address, one.port)
    text = f"add server {backend.name}/{name} {place} {backend.parameters}{check}"
    # HAProxy gives the id of a deleted server to the next one that is added without an id, which
    # then has the old one's entries in stick tables, and its places on the hash ring.
    number = server_number(name)
    weighs = f"weight {_FULL}" + (f" id {number}" if number else "")
    add = RuntimeCommand(name, f"{text} {weighs}", ExpectedReply.ADDED)
    enable = RuntimeCommand(name, f"enable health {backend.name}/{name}")
    return [add, enable, *_open(backend, name, weight)]


def _keep(
    backend: HaproxyBackend, one: WantedServer, server: BackendServer
) -> list[RuntimeCommand]:
    """Return the commands that adapt *server* to *one*."""
    weight = _weight(one, server.initial_weight)
    moves = not _is_at(server, one)
    orders = []
    if moves and not server.in_maintenance:
        orders.append(_set(backend, server.name, "state maint"))
    if moves and backend.keyed:  # what the former instance had is not for this one
        clear = f"clear table {KEY_TABLE} data.server_id eq {server.number}"
        orders.append(RuntimeCommand(server.name, clear))
    if moves:
        place = f"addr {one.address} port {one.port}"
        orders.append(_set(backend, server.name, place, ExpectedReply.MOVED))
    if server.has_check and not server.is_checked:
        orders.append(RuntimeCommand(server.name, f"enable health {backend.name}/{server.name}"))
    if backend.checks_elsewhere and server.has_check and server.check_port != one.check_port:
        orders.append(_set(backend, server.name, f"check-port {one.check_port}"))
    return orders + _begin(backend, server, weight, begins=moves or server.in_maintenance)


def _begin(
    backend: HaproxyBackend, server: BackendServer, weight: int, *, begins: bool
) -> list[RuntimeCommand]:
    if begins and server.has_check:
        return _open(backend, server.name, weight)
    orders = []
    if begins or server.drains:
        orders.append(_set(backend, server.name, "state ready"))
    # A young server without weight was opened by an agent that ended between the steps of `_open`:
    # it may count as up only because it was not checked yet. If it has been up for longer, a person
    # set the weight 0, and declared down it would lose the requests that it works on.
    unproven = server.has_check and server.unchanged_s < _FIRST_CHECK_S
    if server.weight == 0 and weight and not server.drains and unproven:
        orders.append(_set(backend, server.name, "health down"))
    if server.weight != weight:
        orders.append(_set(backend, server.name, f"weight {weight}"))
    return orders


def _open(backend: HaproxyBackend, name: str, weight: int) -> list[RuntimeCommand]:
    """Return the commands that open a server in maintenance after its first good check."""
    # A server that is only made ready counts as up before any check, and HAProxy forgets "health
    # down" of one in maintenance. So it becomes ready without weight, then down, then gets weight.
    steps = ("weight 0", "state ready", "health down", f"weight {weight}")
    return [_set(backend, name, step) for step in steps]


def _leave(
    backend: HaproxyBackend, server: BackendServer, load: Load | None, *, slots: bool, busy: bool
) -> list[RuntimeCommand]:
    """Return the next step of an unwanted server: drain, maintenance, deletion."""
    delete = RuntimeCommand(
        server.name, f"del server {backend.name}/{server.name}", ExpectedReply.DELETED
    )
    if server.in_maintenance:
        return [] if slots else [delete]
    if not server.drains:
        return [_set(backend, server.name, "state drain")]
    if load is None or load.sessions or load.queued or busy:
        return []
    maintenance = _set(backend, server.name, "state maint")
    return [maintenance] if slots else [maintenance, delete]


def _weight(one: WantedServer, full: int) -> int:
    return min(_HEAVIEST, max(1, full * one.weight // _FULL)) if one.weight > 0 else 0


def _set(
    backend: HaproxyBackend, name: str, what: str, good: ExpectedReply = ExpectedReply.NOTHING
) -> RuntimeCommand:
    return RuntimeCommand(name, f"set server {backend.name}/{name} {what}", good)
