"""What to tell HAProxy so that it serves exactly the wanted instances. Pure.

`HaproxyBackend` is one backend: HTTP, or gRPC. The state that HAProxy shows is the only memory: a
server in drain is one that leaves, whoever drained it, so a restarted agent goes on where the last
one was.

A server that begins is gated until its first good check: while its weight is 0 it is made ready
and then declared down, and gets its weight only after that. (Ready alone, it would be taken for up
before any check; declared down in maintenance, it would forget it.)

Nobody leaves while nobody who stays works: a view that replaces all at once would otherwise have
clients meet a backend without a server until the first good check.
"""

import re
from collections.abc import Callable, Iterable

import attrs

from tarn.domain.address import host_port
from tarn_plugins.discovery.haproxy.runtime_commands import ExpectedReply, RuntimeCommand
from tarn_plugins.discovery.haproxy.stats_parser import BackendServer, Load

__all__ = ["BackendPlan", "HaproxyBackend", "WantedServer", "ours", "plan"]

_FULL = 100
"""A member's weight that stands for a whole server."""
_FIRST_CHECK_S = 5
"""After which a server had its first check: twice HAProxy's own ``inter``, and a second."""
_HEAVIEST = 256
"""HAProxy's largest weight."""


@attrs.frozen
class HaproxyBackend:
    """One backend, and the parameters of servers that are added to it."""

    name: str
    parameters: str = "check"
    """What follows the address in ``add server``, without the port of the check."""
    checks_elsewhere: bool = False
    """Whether checks go to another port than requests: gRPC servers are checked over HTTP."""


@attrs.frozen
class WantedServer:
    """One instance, as one backend should have it."""

    instance_id: str
    address: str
    """IP, normalized."""
    port: int
    check_port: int
    weight: int = _FULL
    """100: a whole server."""


@attrs.frozen
class BackendPlan:
    """What to do, and what cannot be done."""

    orders: tuple[RuntimeCommand, ...] = ()
    without_slot: tuple[str, ...] = ()
    """Instance ids for which there is no free slot."""
    leaving: tuple[BackendServer, ...] = ()
    """Servers that drain, or will after the orders."""
    held: tuple[BackendServer, ...] = ()
    """Servers that leave only when another one works."""


def ours(slots: str, fleet: str) -> Callable[[str], bool]:
    """Return how a server is known to be the fleet's, by its name.

    Args:
        slots: Beginning of the placeholders' names; empty: servers carry instance ids.
        fleet: The cluster's name; empty: any, since ids are ``<name>-<nnnn>``.
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
) -> BackendPlan:
    """Return what brings *shown* nearer to *wanted*; nothing to do when it is there.

    Args:
        backend: The backend.
        wanted: The instances that it should have.
        shown: The servers of it that are ours.
        loads: By server's name; one that is missing is not yet counted, so it is not taken out.
        slots: Whether the servers are placeholders, which are used and never added or deleted.
        remove: Whether the view is complete, so that what it does not name leaves.
        hold: Whether those that leave may be kept until one that stays works.
    """
    shown = tuple(shown)
    placed, without = _in_slots(wanted, shown) if slots else _by_name(wanted)
    known = {server.name: server for server in shown}
    orders: list[RuntimeCommand] = []
    for name, one in placed.items():
        orders += _keep(backend, one, known[name]) if name in known else _add(backend, one)
    extra = [s for s in shown if s.name not in placed] if remove else []
    alone = bool(placed) and not any(s.works and s.name in placed for s in shown)
    held = tuple(s for s in extra if s.works) if hold and alone else ()
    extra = [s for s in extra if s not in held]
    for server in extra:
        orders += _leave(backend, server, loads.get(server.name), slots=slots)
    leaving = tuple(s for s in extra if not s.in_maintenance or not slots)
    return BackendPlan(tuple(orders), without, leaving, held)


def _by_name(wanted: Iterable[WantedServer]) -> tuple[dict[str, WantedServer], tuple[str, ...]]:
    return {one.instance_id: one for one in wanted}, ()


def _in_slots(
    wanted: Iterable[WantedServer], shown: tuple[BackendServer, ...]
) -> tuple[dict[str, WantedServer], tuple[str, ...]]:
    """Give each instance the slot that has its address, else one that nobody uses."""
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
    add = RuntimeCommand(name, f"{text} weight {_FULL}", ExpectedReply.ADDED)
    enable = RuntimeCommand(name, f"enable health {backend.name}/{name}")
    return [add, enable, *_open(backend, name, weight)]


def _keep(
    backend: HaproxyBackend, one: WantedServer, server: BackendServer
) -> list[RuntimeCommand]:
    """Put *server* right for *one*."""
    weight = _weight(one, server.initial_weight)
    moves = not _is_at(server, one)
    orders = []
    if moves and not server.in_maintenance:
        orders.append(_set(backend, server.name, "state maint"))
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
    if server.weight == 0 and weight and not server.drains and _is_unproven(server):
        orders.append(_set(backend, server.name, "health down"))  # its beginning was cut short
    if server.weight != weight:
        orders.append(_set(backend, server.name, f"weight {weight}"))
    return orders


def _is_unproven(server: BackendServer) -> bool:
    """Say whether it may be up only because nobody checked it yet.

    One that was up for long and has the weight 0 got that by hand: declared down it would lose the
    requests that it works on.
    """
    return server.has_check and server.unchanged_s < _FIRST_CHECK_S


def _open(backend: HaproxyBackend, name: str, weight: int) -> list[RuntimeCommand]:
    """Let a server in maintenance begin, closed until its first good check."""
    steps = ("weight 0", "state ready", "health down", f"weight {weight}")
    return [_set(backend, name, step) for step in steps]


def _leave(
    backend: HaproxyBackend, server: BackendServer, load: Load | None, *, slots: bool
) -> list[RuntimeCommand]:
    """Return the next step of a server that nobody wants: drain, maintenance, deletion."""
    delete = RuntimeCommand(
        server.name, f"del server {backend.name}/{server.name}", ExpectedReply.DELETED
    )
    if server.in_maintenance:
        return [] if slots else [delete]
    if not server.drains:
        return [_set(backend, server.name, "state drain")]
    if load is None or load.sessions or load.queued:
        return []
    maintenance = _set(backend, server.name, "state maint")
    return [maintenance] if slots else [maintenance, delete]


def _weight(one: WantedServer, full: int) -> int:
    return min(_HEAVIEST, max(1, full * one.weight // _FULL)) if one.weight > 0 else 0


def _set(
    backend: HaproxyBackend, name: str, what: str, good: ExpectedReply = ExpectedReply.NOTHING
) -> RuntimeCommand:
    return RuntimeCommand(name, f"set server {backend.name}/{name} {what}", good)
