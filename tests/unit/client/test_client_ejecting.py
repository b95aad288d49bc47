"""Who answers badly is left alone: the rule, its bounds, and real clients at two servers."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from client_stage import Misbehaving, asks, http_of, publish, tensor
from fake_master import TOKEN, FakeMaster, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.utils import InferenceServerException

import tarn.client
from tarn.client.pool import (
    CUTS_TO_EJECT,
    LONGEST_BACK_OFF_S,
    MODEL_FAILURES,
    SERVER_FAILURES,
    UNREPEATED_AFTER_S,
    AnswerRecord,
    InstancePool,
    PoolMember,
    enough,
    room,
)
from tarn.client.targets import ServiceAddress
from tarn.domain import Demand
from tarn.errors import TimedOutError
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.fakes import FakeClock
from tarn.testing.wait import until
from tarn.triton.answers import Culprit

TARGETS = tuple(ServiceAddress("127.0.0.1", 8000 + n, f"llama-{n:04}") for n in range(5))


# -- the rule --------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "most"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_never_more_than_half_and_never_the_last(count: int, most: int) -> None:
    assert [alone for alone in range(count) if room(alone, count)] == list(range(most))


def record(failed: int, since_s: float = 0.0, well_s: float = float("-inf")) -> AnswerRecord:
    made = AnswerRecord()
    made.failed, made.since_s, made.well_s = failed, since_s, well_s
    return made


@settings(deadline=None)
@given(
    st.integers(1, 20),
    st.sampled_from(list(Culprit)),
    st.lists(st.floats(0, 20), max_size=4),
    st.floats(0, 20),
)
def test_what_is_enough(failed: int, whose: Culprit, well: list[float], since_s: float) -> None:
    """Of the server some in a row; of the model more, and a good answer elsewhere since."""
    found = enough(record(failed, since_s), whose, [record(0, well_s=at_s) for at_s in well])
    elsewhere = any(at_s >= since_s for at_s in well)
    assert found is (
        (whose is Culprit.SERVER and failed >= SERVER_FAILURES)
        or (whose is Culprit.MODEL and failed >= MODEL_FAILURES and elsewhere)
    )


# -- the fleet -------------------------------------------------------------------------------


def made(count: int) -> tuple[InstancePool, FakeClock]:
    clock = FakeClock()
    fleet = InstancePool(clock, random.Random(1).random)
    fleet.set_members(TARGETS[:count])
    return fleet, clock


def ends(
    fleet: InstancePool,
    slot: PoolMember,
    whose: Culprit | None,
    model: str = "m",
    *,
    answered: bool = True,
) -> None:
    fleet.give_back(slot, None, answered=answered, model=model, whose=whose)


def fails(
    fleet: InstancePool, slot: PoolMember, whose: Culprit, times: int, model: str = "m"
) -> None:
    for _ in range(times):
        fleet.take_this(slot)
        ends(fleet, slot, whose, model)


def asked(fleet: InstancePool, model: str = "m", times: int = 40) -> set[PoolMember]:
    """Return who gets requests that all tell nothing."""
    found = set()
    for _ in range(times):
        slot = fleet.take((), model)
        assert slot is not None
        found.add(slot)
        ends(fleet, slot, Culprit.NOBODY, model)
    return found


def test_it_is_left_alone_for_one_model_and_gets_the_others() -> None:
    """A dead stub is one model's."""
    fleet, _ = made(2)
    sick, well = fleet.slots
    fails(fleet, sick, Culprit.SERVER, SERVER_FAILURES - 1)
    assert asked(fleet) == {sick, well}
    fails(fleet, sick, Culprit.SERVER, 1)
    assert asked(fleet) == {well}
    assert asked(fleet, "other") == {sick, well}


def test_one_request_tries_it_again_and_no_other_goes_there_meanwhile() -> None:
    """Good: it is back; bad: it is left alone for longer each time, up to five seconds."""
    fleet, clock = made(2)
    sick, well = fleet.slots
    fails(fleet, sick, Culprit.SERVER, SERVER_FAILURES)
    waits = []
    for _ in range(7):
        waits.append(round(sick.models["m"].until_s - clock.now_s(), 3))
        clock.advance(waits[-1])
        while (slot := fleet.take((), "m")) is not sick:
            ends(fleet, slot, None)
        clock.advance(60.0)
        assert asked(fleet) == {well}
        ends(fleet, sick, Culprit.SERVER)
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_BACK_OFF_S, LONGEST_BACK_OFF_S]
    clock.advance(LONGEST_BACK_OFF_S)
    while (slot := fleet.take((), "m")) is not sick:
        ends(fleet, slot, None)
    ends(fleet, sick, None)
    assert asked(fleet) == {sick, well}
    assert sick.models["m"].times == 0


def test_a_trial_that_says_nothing_is_followed_by_another() -> None:
    """A connection that was cut, a wrong request."""
    fleet, clock = made(2)
    sick, _ = fleet.slots
    fails(fleet, sick, Culprit.SERVER, SERVER_FAILURES)
    clock.advance(0.2)
    for answered, whose in ((False, None), (True, Culprit.CALLER)):
        while (slot := fleet.take((), "m")) is not sick:
            ends(fleet, slot, None)
        ends(fleet, sick, whose, answered=answered)
        assert sick.alone_for("m")
    assert sick in asked(fleet)


def test_what_was_in_flight_before_decides_nothing() -> None:
    """Twenty that fail together are one ejection."""
    fleet, clock = made(2)
    sick, _ = fleet.slots
    for _ in range(20):
        fleet.take_this(sick)
    for _ in range(20):
        ends(fleet, sick, Culprit.SERVER)
    assert (sick.models["m"].times, sick.models["m"].until_s) == (1, clock.now_s() + 0.2)


def test_a_models_own_error_counts_only_beside_a_good_answer_elsewhere() -> None:
    """Of the same model, since it began to fail."""
    fleet, clock = made(3)
    sick, well, _ = fleet.slots
    fleet.take_this(well)
    ends(fleet, well, None)
    clock.advance(1.0)
    fails(fleet, sick, Culprit.MODEL, 50)
    assert not sick.alone_for("m")
    fleet.take_this(well)
    ends(fleet, well, None, "other")
    fails(fleet, sick, Culprit.MODEL, 1)
    assert not sick.alone_for("m")
    fleet.take_this(well)
    ends(fleet, well, None)
    fails(fleet, sick, Culprit.MODEL, 1)
    assert sick.alone_for("m")


def test_a_new_view_lets_nobody_back_but_who_is_too_many() -> None:
    """Who fails its users is in every view."""
    fleet, _ = made(4)
    for slot in fleet.slots[:2]:
        fails(fleet, slot, Culprit.SERVER, SERVER_FAILURES)
    one, two = fleet.slots[:2]
    fleet.set_members(TARGETS)
    assert one.alone_for("m")
    assert two.alone_for("m")
    fleet.set_members(TARGETS[:2])
    assert one.alone_for("m") + two.alone_for("m") == 1
    fleet.set_members(TARGETS[:1])
    assert not one.alone_for("m")


def test_where_no_other_can_be_reached_it_gets_requests_all_the_same() -> None:
    """A bad answer is better than none."""
    fleet, _ = made(2)
    sick, well = fleet.slots
    fails(fleet, sick, Culprit.SERVER, SERVER_FAILURES)
    fleet.take_this(well)
    fleet.eject(well)
    assert fleet.take((), "m") is sick


def test_names_that_callers_invent_are_not_kept() -> None:
    fleet, _ = made(2)
    fails(fleet, fleet.slots[0], Culprit.CALLER, 3, "invented")
    assert fleet.slots[0].models == {}


def test_listeners_hear_who_was_left_alone_and_for_how_many_answers() -> None:
    """Once for all in a row, and then for each trial."""
    fleet, clock = made(2)
    heard: list[tuple[str, str, int]] = []
    fleet.listen_to_failures(lambda *told: heard.append(told))
    sick, _ = fleet.slots
    fails(fleet, sick, Culprit.SERVER, SERVER_FAILURES + 5)
    assert heard == [("llama-0000", "m", SERVER_FAILURES)]
    clock.advance(0.2)
    while (slot := fleet.take((), "m")) is not sick:
        ends(fleet, slot, None)
    ends(fleet, sick, Culprit.MODEL)
    assert heard[1:] == [("llama-0000", "m", 1)]


def test_listeners_hear_of_cut_connections() -> None:
    """They stand in no counter of Triton. Once for the first ones in a row, then for each."""
    fleet, _ = made(2)
    heard: list[tuple[str, str, int]] = []
    fleet.listen_to_failures(lambda *told: heard.append(told))
    fleet.cut(fleet.slots[0], "m")
    assert heard == []
    fleet.cut(fleet.slots[0], "m")
    fleet.cut(fleet.slots[0], "m")
    fleet.cut(fleet.slots[0])
    assert heard == [("llama-0000", "m", CUTS_TO_EJECT), ("llama-0000", "m", 1)]


def test_what_may_not_be_repeated_tries_nobody_out_until_nothing_else_came_for_long() -> None:
    """A failed trial would cost its user the request."""
    fleet, clock = made(2)
    sick, well = fleet.slots
    fails(fleet, sick, Culprit.SERVER, SERVER_FAILURES)
    clock.advance(UNREPEATED_AFTER_S)
    for _ in range(20):
        assert fleet.take((), "m", repeats=False) is well
        ends(fleet, well, None)
    clock.advance(0.2)
    taken = set()
    while sick not in taken:
        taken.add(slot := fleet.take((), "m", repeats=False))
        ends(fleet, slot, None)
    assert not sick.alone_for("m")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("mn")),
        st.tuples(
            st.just("end"),
            st.integers(0, 9),
            st.sampled_from([None, *Culprit]),
            st.booleans(),
        ),
        st.tuples(st.just("fail"), st.integers(0, 4), st.sampled_from("mn")),
        st.tuples(st.just("eject"), st.integers(0, 4)),
        st.tuples(st.just("set_members"), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.floats(0, 6)),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(steps, st.integers(1, 5))
def test_whatever_happens_half_are_left_and_everybody_comes_back(  # noqa: C901, PLR0912 (kinds)
    todo: list[tuple[object, ...]], count: int
) -> None:
    """And somebody gets each request as long as one can be reached."""
    fleet, clock = made(count)
    flying: list[tuple[PoolMember, str]] = []
    for step in todo:
        match step:
            case ("take", str(model)):
                slot = fleet.take((), model)
                reachable = [s for s in fleet.slots if not s.failures or s.until_s <= clock.now_s()]
                if slot is not None:
                    flying.append((slot, model))
                else:
                    assert [s for s in reachable if not s.tried] == []
            case ("end", int(place), whose, bool(answered)) if flying:
                slot, model = flying.pop(place % len(flying))
                ends(fleet, slot, whose, model, answered=answered)
            case ("fail", int(place), str(model)) if fleet.slots:
                slot = fleet.slots[place % len(fleet.slots)]
                fails(fleet, slot, Culprit.SERVER, SERVER_FAILURES, model)
            case ("eject", int(place)) if fleet.slots:
                fleet.eject(fleet.slots[place % len(fleet.slots)])
            case ("set_members", int(wanted)):
                fleet.set_members(TARGETS[:wanted])
            case ("pass", float(seconds)):
                clock.advance(seconds)
        for model in "mn":
            alone = sum(slot.alone_for(model) for slot in fleet.slots)
            assert 2 * alone <= len(fleet.slots)
            assert fleet._alone.get(model, 0) == alone
    for slot, model in flying:
        ends(fleet, slot, None, model)
    clock.advance(LONGEST_BACK_OFF_S)
    for model in "mn":
        for _ in range(100 * len(fleet.slots)):
            slot = fleet.take((), model)
            assert slot is not None
            ends(fleet, slot, None, model)
        assert not any(slot.alone_for(model) for slot in fleet.slots)


# -- real clients ----------------------------------------------------------------------------

STUB = b'{"error":"Stub process \'echo_0_0\' is not healthy."}'
RAISED = b'{"error":"Failed to process the request(s) for model \'echo_0_0\', message: E: no"}'
WRONG = b'{"error":"Unable to parse \'data\': attempt to access JSON non-number as double"}'
FULL = b'{"error":"Exceeds maximum queue size"}'


def says(status: int, body: bytes):
    text = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
    return lambda sock, _request: sock.sendall(text)


def silent(_sock: object, _request: bytes) -> None:
    """Say nothing."""


@pytest.fixture
def triton() -> Iterator[FakeTriton]:
    with FakeTriton("echo") as one:
        yield one


def lost(client: object, calls: int) -> int:
    """Return how many of some calls failed."""
    count = 0
    for number in range(calls):
        try:
            assert asks(client, number) == number
        except (InferenceServerException, TimedOutError):
            count += 1
    return count


@pytest.mark.parametrize(
    ("behaviour", "failures"),
    [
        (says(500, STUB), SERVER_FAILURES),
        (says(502, b"<html>"), SERVER_FAILURES),
        (says(500, RAISED), MODEL_FAILURES),
    ],
)
def test_a_few_are_lost_to_an_instance_that_fails_and_then_none(
    triton: FakeTriton, behaviour: object, failures: int
) -> None:
    """Half of all would be otherwise. Those that try it again are asked of the other one."""
    with (
        Misbehaving(behaviour) as sick,
        tarn.client.http([sick.address, *http_of([triton])]) as client,
    ):
        assert lost(client, 60) == failures
        until(lambda: asks(client, 1) == 1 and len(sick.requests) > failures)


def test_a_trial_is_lost_where_nothing_may_be_executed_twice(triton: FakeTriton) -> None:
    """``retry_resets=False``: one call for each trial, of which there is none for a while."""
    with (
        Misbehaving(says(500, STUB)) as sick,
        tarn.client.http([sick.address, *http_of([triton])], retry_resets=False) as client,
    ):
        assert lost(client, 60) == SERVER_FAILURES
        slot = next(s for s in client._fleet.slots if s.alone_for("echo"))
        slot.models["echo"].until_s -= UNREPEATED_AFTER_S + LONGEST_BACK_OFF_S
        found = 0
        while len(sick.requests) == SERVER_FAILURES:
            found += lost(client, 1)
        assert found == 1


@pytest.mark.parametrize(("status", "body"), [(400, b"{}"), (404, b"{}"), (500, WRONG)])
def test_what_the_caller_got_wrong_leaves_nobody_alone(
    triton: FakeTriton, status: int, body: bytes
) -> None:
    """Half of the calls go there, and fail."""
    with (
        Misbehaving(says(status, body)) as other,
        tarn.client.http([other.address, *http_of([triton])]) as client,
    ):
        assert lost(client, 40) == 20


def test_a_full_queue_leaves_nobody_alone(triton: FakeTriton) -> None:
    """The call is asked of the other one, as always."""
    with (
        Misbehaving(says(503, FULL)) as busy,
        tarn.client.http([busy.address, *http_of([triton])]) as client,
    ):
        assert lost(client, 40) == 0
        assert len(busy.requests) >= 15


def test_where_all_fail_alike_all_are_asked() -> None:
    """A model that raises everywhere is nobody's fault among the instances."""
    with (
        Misbehaving(says(500, RAISED)) as one,
        Misbehaving(says(500, RAISED)) as two,
        tarn.client.http([one.address, two.address]) as client,
    ):
        assert lost(client, 40) == 40
        assert len(one.requests) == len(two.requests) == 20


def test_late_answers_count(triton: FakeTriton) -> None:
    """As any other failure of the server. A late trial costs time, and no request."""
    with (
        Misbehaving(silent) as hung,
        tarn.client.http([hung.address, *http_of([triton])], answer_within_s=0.1) as client,
    ):
        assert lost(client, 40) == SERVER_FAILURES
        until(lambda: asks(client, 1) == 1 and len(hung.requests) > SERVER_FAILURES)


def test_an_instance_that_heals_gets_its_half_again(triton: FakeTriton) -> None:
    """As soon as one trial is answered well."""
    with FakeTriton("echo") as second:
        sick = Misbehaving(*[says(500, STUB)] * SERVER_FAILURES, _forward_to(second))
        with sick, tarn.client.http([sick.address, *http_of([triton])]) as client:
            assert lost(client, 2 * SERVER_FAILURES + 4) == SERVER_FAILURES
            until(lambda: asks(client, 1) == 1 and bool(second.requests))
            before = len(second.requests)
            assert lost(client, 20) == 0
            assert len(second.requests) >= before + 8


def _forward_to(triton: FakeTriton):
    import http.client  # noqa: PLC0415

    def forward(sock, request):
        head, _, body = request.partition(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        headers = {
            name.decode(): value.decode()
            for name, value in lines.items()
            if name.lower() not in (b"host", b"content-length")
        }
        connection = http.client.HTTPConnection(triton.endpoint.http)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        more = "".join(
            f"{name}: {value}\r\n"
            for name, value in answer.headers.items()
            if name.lower() not in ("content-length", "connection", "transfer-encoding")
        )
        connection.close()
        first = f"HTTP/1.1 {answer.status} X\r\nContent-Length: {len(data)}\r\n{more}\r\n"
        sock.sendall(first.encode() + data)

    return forward


def test_the_asyncio_client_does_the_same(triton: FakeTriton) -> None:
    async def run(address: str) -> int:
        count = 0
        async with tarn.client.aio([address, *http_of([triton])]) as client:
            for number in range(40):
                try:
                    await client.infer("echo", tensor(number))
                except InferenceServerException:
                    count += 1
        return count

    with Misbehaving(says(500, STUB)) as sick:
        assert asyncio.run(run(sick.address)) == SERVER_FAILURES


def test_the_master_is_told_whom_and_how_often(triton: FakeTriton) -> None:
    """By the word that says who waits, of which there is none here."""
    with ExitStack() as stack:
        sick = stack.enter_context(FakeTriton("echo"))
        master = stack.enter_context(FakeMaster(snapshot()))
        publish(master, [triton.endpoint, sick.endpoint], 4)
        client = stack.enter_context(tarn.client.http(master.url, api_token=TOKEN.decode()))
        slot = next(s for s in client._fleet.slots if s.target.port == sick.endpoint.http_port)
        fails(client._fleet, slot, Culprit.SERVER, SERVER_FAILURES)
        until(lambda: any(isinstance(c, Demand) for c in master.commands))
        (word,) = [c for c in master.commands if isinstance(c, Demand)]
        assert word.failures == ((slot.target.instance_id, "m", SERVER_FAILURES),)
        assert (word.waiting, word.refused, word.source[:7]) == (0, 0, "client-")
