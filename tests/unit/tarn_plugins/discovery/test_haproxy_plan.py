"""The plan brings any HAProxy to the wanted servers, closed to who was not checked, and rests."""

import attrs
from hypothesis import strategies as st

from tarn.testing.strategies import for_any
from tarn_plugins.discovery.haproxy.plan import (
    BackendPlan,
    HaproxyBackend,
    WantedServer,
    ours,
    plan,
)
from tarn_plugins.discovery.haproxy.runtime_messages import (
    BackendServer,
    Load,
    RuntimeCommand,
    complaint,
)

HTTP = HaproxyBackend("b", "check inter 500ms")
GRPC = HaproxyBackend("b", "proto h2 check", checks_elsewhere=True)
_PLACES = (("10.0.0.1", 80), ("10.0.0.1", 81), ("10.0.0.2", 80), ("::1", 80), ("10.0.0.3", 9))
_IDS = tuple(f"fleet-{n:04d}" for n in range(1, 6))
_SLOTS = tuple(f"triton-{n}" for n in range(1, 6))


@attrs.define
class Row:
    """One server of the model."""

    server: BackendServer
    sessions: int = 0
    up: bool = False
    verified: bool = False
    """Whether it is up because a check said so."""

    @property
    def open_unchecked(self) -> bool:
        """Whether it would get a request before any check."""
        return self.server.serves and self.server.has_check and self.up and not self.verified


class Model:
    """HAProxy 2.6, as far as the plan's commands go; what it answers is its own words."""

    def __init__(self, rows: dict[str, Row]) -> None:
        self.rows = rows
        self.written = 0

    def obey(self, order: RuntimeCommand) -> str:
        """Do one command."""
        self.written += 1
        verb, _, place, *rest = (*order.text.split(), "")
        if verb == "add":
            return self._add(place.split("/")[1], rest)
        name = place.split("/")[1]
        if name not in self.rows:
            return "No such server."
        row = self.rows[name]
        if verb == "del":
            return self._delete(name, row)
        if verb == "enable":
            row.server = attrs.evolve(row.server, check=row.server.check | 4)
            return ""
        return getattr(self, f"_set_{rest[0].replace('-', '_')}")(row, rest[1:])

    def _add(self, name: str, rest: list[str]) -> str:
        if name in self.rows:
            return "Already exists a server with the same name in backend."
        host, _, port = rest[0].rpartition(":")
        words = rest[1:]
        check_port = int(words[words.index("port") + 1]) if "port" in words else 0
        weight = int(words[words.index("weight") + 1])
        self.rows[name] = Row(
            BackendServer(name, host.strip("[]"), int(port), 1, 2, check_port, weight, weight)
        )
        return "New server registered."

    def _delete(self, name: str, row: Row) -> str:
        if not row.server.in_maintenance:
            return "Only servers in maintenance mode can be deleted."
        if row.sessions:
            return "Server still has connections attached to it, cannot remove it."
        del self.rows[name]
        return "Server deleted."

    def _set_state(self, row: Row, words: list[str]) -> str:
        before = row.server
        kept = before.admin & ~0x3B
        bits = {"ready": 0, "drain": 0x08, "maint": 0x01}[words[0]]
        row.server = attrs.evolve(before, admin=kept | bits)
        if before.in_maintenance and not row.server.in_maintenance:
            row.up, row.verified = True, False
        if row.server.in_maintenance:
            row.up = row.verified = False
        return ""

    def _set_health(self, row: Row, words: list[str]) -> str:
        if not row.server.in_maintenance:
            row.up = row.verified = False
        return ""

    def _set_weight(self, row: Row, words: list[str]) -> str:
        row.server = attrs.evolve(row.server, weight=int(words[0]))
        return ""

    def _set_addr(self, row: Row, words: list[str]) -> str:
        row.server = attrs.evolve(row.server, address=words[0], port=int(words[2]))
        return "IP changed from 'a' to 'b', port changed from '1' to '2' by 'stats socket command'"

    def _set_check_port(self, row: Row, words: list[str]) -> str:
        if not row.server.is_checked:
            return "health checks are not enabled on this server"
        row.server = attrs.evolve(row.server, check_port=int(words[0]))
        return ""


def pass_once(
    model: Model,
    door: HaproxyBackend,
    wanted: tuple[WantedServer, ...],
    *,
    slots: bool,
    remove: bool,
) -> BackendPlan:
    """Read, plan, do; every answer is a good one, and nobody unchecked is ever open."""
    shown = tuple(row.server for row in model.rows.values())
    loads = {name: Load(row.sessions, 0, 0) for name, row in model.rows.items()}
    made = plan(door, wanted, shown, loads, slots=slots, remove=remove)
    for order in made.orders:
        was_open = {name for name, row in model.rows.items() if row.open_unchecked}
        assert complaint(order, model.obey(order)) == ""
        now_open = {name for name, row in model.rows.items() if row.open_unchecked}
        assert now_open <= was_open, order
    for row in model.rows.values():
        row.sessions = max(0, row.sessions - 1)
        row.verified = row.up = not row.server.in_maintenance
    return made


def settle(
    model: Model, door: HaproxyBackend, wanted: tuple[WantedServer, ...], *, slots: bool
) -> BackendPlan:
    """Go on until nothing is left to do, sessions end meanwhile."""
    for _ in range(10):
        idle = not any(row.sessions for row in model.rows.values())
        made = pass_once(model, door, wanted, slots=slots, remove=True)
        if idle and not made.orders:
            return made
    raise AssertionError(made)


def _rows(names: tuple[str, ...], *, checked: bool = False) -> st.SearchStrategy[dict[str, Row]]:
    def row(name: str, place: tuple[str, int], bits: tuple[int, int], weight: int, open_: int):
        server = BackendServer(name, *place, *bits, 0, weight, 100)
        up = not server.in_maintenance
        return Row(server, 0 if server.in_maintenance else open_, up, verified=up)

    def rows(chosen: list[str]) -> st.SearchStrategy[dict[str, Row]]:
        one = {
            name: st.builds(
                row,
                st.just(name),
                st.sampled_from(_PLACES),
                st.tuples(
                    st.sampled_from((0, 1, 4, 5, 8, 9, 12)),
                    st.sampled_from((6, 14) if checked else (2, 6, 10, 14)),
                ),
                st.sampled_from((0, 50, 100)),
                st.integers(0, 2),
            )
            for name in chosen
        }
        return st.fixed_dictionaries(one)

    return st.lists(st.sampled_from(names), unique=True).flatmap(rows)


_wanted = st.lists(
    st.builds(
        lambda name, place, weight: WantedServer(name, *place, check_port=7, weight=weight),
        st.sampled_from(_IDS),
        st.sampled_from(_PLACES),
        st.sampled_from((100, 50)),
    ),
    unique_by=lambda one: one.instance_id,
).map(tuple)


@for_any(examples=300, rows=_rows(_IDS), wanted=_wanted, door=st.sampled_from((HTTP, GRPC)))
def test_any_haproxy_comes_to_exactly_the_wanted_servers(
    rows: dict[str, Row], wanted: tuple[WantedServer, ...], door: HaproxyBackend
) -> None:
    """Whoever is wanted serves at its address with its weight; nobody else is left."""
    model = Model(rows)
    settle(model, door, wanted, slots=False)
    assert model.rows.keys() == {one.instance_id for one in wanted}
    for one in wanted:
        server = model.rows[one.instance_id].server
        assert server.serves
        assert server.is_checked
        assert (server.address, server.port) == (one.address, one.port)
        assert server.weight == one.weight
        assert server.check_port in (0, one.check_port)
    before = model.written
    pass_once(model, door, wanted, slots=False, remove=True)
    assert model.written == before


@for_any(examples=300, rows=_rows(_SLOTS, checked=True), wanted=_wanted)
def test_any_placeholders_come_to_serve_the_wanted_instances(
    rows: dict[str, Row], wanted: tuple[WantedServer, ...]
) -> None:
    """As many as there are slots; whoever has none is named; a slot is never added or deleted."""
    model, names = Model(rows), set(rows)
    made = settle(model, HTTP, wanted, slots=True)
    assert set(model.rows) == names
    serving = [r.server for r in model.rows.values() if r.server.serves]
    assert len(serving) == min(len(names), len(wanted))
    assert len(made.without_slot) == len(wanted) - len(serving)
    homes = sorted(
        (one.address, one.port) for one in wanted if one.instance_id not in made.without_slot
    )
    assert sorted((s.address, s.port) for s in serving) == homes
    assert all(s.server.in_maintenance for s in model.rows.values() if s.server not in serving)
    before = model.written
    pass_once(model, HTTP, wanted, slots=True, remove=True)
    assert model.written == before


@for_any(examples=200, rows=_rows(_IDS), wanted=_wanted)
def test_an_incomplete_view_takes_nobody_out(
    rows: dict[str, Row], wanted: tuple[WantedServer, ...]
) -> None:
    """Who served still serves, whatever else is done."""
    model = Model(rows)
    served = {name for name, row in rows.items() if row.server.serves}
    names = set(rows)
    for _ in range(5):
        pass_once(model, HTTP, wanted, slots=False, remove=False)
    now = {name for name, row in model.rows.items() if row.server.serves}
    assert now == served | {one.instance_id for one in wanted}
    assert names <= set(model.rows)


@for_any(examples=200, rows=_rows(_IDS), wanted=_wanted)
def test_nobody_with_an_open_request_is_taken_out(
    rows: dict[str, Row], wanted: tuple[WantedServer, ...]
) -> None:
    """A server that leaves is in maintenance only when it has no session."""
    model = Model(rows)
    staying = {one.instance_id for one in wanted}
    for _ in range(6):
        open_ = {n for n, r in model.rows.items() if r.sessions and not r.server.in_maintenance}
        pass_once(model, HTTP, wanted, slots=False, remove=True)
        for name in open_ - staying:
            assert not model.rows[name].server.in_maintenance


def test_servers_whose_load_is_not_known_stay_in_drain() -> None:
    """Without a count nothing is taken out."""
    drained = BackendServer("fleet-0001", "10.0.0.1", 80, admin=8, check=6)
    made = plan(HTTP, (), (drained,), {}, slots=False, remove=True)
    assert made.orders == ()
    assert made.leaving == (drained,)


def test_a_server_begins_closed() -> None:
    """The order of the commands is the gate."""
    one = WantedServer("fleet-0001", "::1", 80, 81, 100)
    made = plan(GRPC, (one,), (), {}, slots=False, remove=True)
    assert [order.text for order in made.orders] == [
        "add server b/fleet-0001 [::1]:80 proto h2 check port 81 weight 100 id 696000001",
        "enable health b/fleet-0001",
        "set server b/fleet-0001 weight 0",
        "set server b/fleet-0001 state ready",
        "set server b/fleet-0001 health down",
        "set server b/fleet-0001 weight 100",
    ]


def test_ownership_goes_by_the_name() -> None:
    """Instances of the fleet, or the placeholders; nothing else."""
    mine = ours("", "fleet")
    assert mine("fleet-0001")
    assert mine("fleet-12345")
    for foreign in ("spare", "fleet", "fleet-1", "fleet-00x1", "other-0001", "my-fleet-0001"):
        assert not mine(foreign)
    assert ours("", "")("any-thing-0001")
    assert not ours("", "")("spare")
    assert ours("triton-", "fleet")("triton-1")
    assert not ours("triton-", "fleet")("fleet-0001")


def test_weights_are_parts_of_the_slots_own() -> None:
    """100 stands for the whole weight that the operator gave the slot."""
    slot = BackendServer(
        "triton-1", "0.0.0.0", 8000, admin=5, check=14, weight=10, initial_weight=10
    )
    one = WantedServer("fleet-0001", "10.0.0.1", 80, 80, 50)
    made = plan(HTTP, (one,), (slot,), {}, slots=True, remove=True)
    assert made.orders[-1].text == "set server b/triton-1 weight 5"


def test_a_slot_without_a_check_is_not_closed() -> None:
    """Nothing would ever open it again."""
    slot = BackendServer("triton-1", "10.0.0.1", 80, admin=5, check=0, weight=1, initial_weight=1)
    one = WantedServer("fleet-0001", "10.0.0.1", 80, 80, 100)
    made = plan(HTTP, (one,), (slot,), {}, slots=True, remove=True)
    assert [order.text for order in made.orders] == ["set server b/triton-1 state ready"]


def test_a_server_that_a_person_closed_is_not_declared_down() -> None:
    """It has proven itself; down, it would lose what it works on. One that just began has not."""
    one = WantedServer("fleet-0001", "10.0.0.1", 80, 80, 100)
    closed = BackendServer(
        "fleet-0001", "10.0.0.1", 80, admin=0, check=6, weight=0, initial_weight=100
    )
    for since_s, orders in ((60, ["weight 100"]), (0, ["health down", "weight 100"])):
        shown = attrs.evolve(closed, state=2, unchanged_s=since_s)
        made = plan(HTTP, (one,), (shown,), {}, slots=False, remove=True)
        assert [o.text.partition("fleet-0001 ")[2] for o in made.orders] == orders


def test_nobody_leaves_while_nobody_who_stays_works() -> None:
    """The last one that works is kept until the new one is up, where the caller has the time."""
    old = BackendServer(
        "fleet-0001", "10.0.0.1", 80, admin=0, check=6, weight=100, initial_weight=100, state=2
    )
    new = BackendServer(
        "fleet-0002", "10.0.0.1", 81, admin=0, check=6, weight=100, initial_weight=100, state=0
    )
    wanted = (WantedServer("fleet-0002", "10.0.0.1", 81, 81),)

    def made(*shown: BackendServer, hold: bool) -> BackendPlan:
        return plan(HTTP, wanted, shown, {}, slots=False, remove=True, hold=hold)

    assert made(old, new, hold=True).held == (old,)
    assert made(old, new, hold=True).orders == ()
    drain = "set server b/fleet-0001 state drain"
    assert [order.text for order in made(old, new, hold=False).orders] == [drain]
    up = attrs.evolve(new, state=2)
    assert [order.text for order in made(old, up, hold=True).orders] == [drain]
    dead = attrs.evolve(old, state=0)
    assert [order.text for order in made(dead, new, hold=True).orders] == [drain]
    nobody = plan(HTTP, (), (old,), {}, slots=False, remove=True, hold=True)
    assert [order.text for order in nobody.orders] == [drain]
