"""Control calls: what is wanted, who has it, and who must wait for it."""

import json
from typing import Any

import attrs
import pytest
from given import AT, EPOCH, NOW_S, codes, fleet, one, reading, ready, rules, starting

from tarn.domain import CallKind, ControlRequest, Done, Instance, ModelState, Reading, SavedState
from tarn.domain.apply_command import apply_command
from tarn.domain.calls_everywhere import CallState, behind, settle_calls, who_has
from tarn.domain.control_calls import (
    MOST_ATTEMPTS,
    MOST_ATTEMPTS_EVER,
    MOST_CALLS,
    CallProgress,
    ControlCall,
    WantedCalls,
    next_call,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.fold_readings import fold_readings
from tarn.domain.spec import ModelsSpec
from tarn.errors import RefusedError
from tarn.plain.master_files import StateFile, newest, written

LOAD = ControlRequest(CallKind.LOAD, "second")


def explicit(*serve: str, **more: Any) -> Rules:
    some, models = rules(), ModelsSpec("/models", serve=serve, control="explicit", **more)
    return attrs.evolve(some, spec=attrs.evolve(some.spec, models=models))


EXPLICIT = explicit("echo")


def asked(some: Fleet, *requests: ControlRequest, by: Rules = EXPLICIT) -> tuple[Fleet, Done]:
    done = None
    for request in requests:
        some, done = apply_command(some, request, by, now_s=NOW_S, at=AT)
    assert done is not None
    return some, done


def having(some: Fleet, number: int, *ids: int) -> Fleet:
    """Return *some* where these instances have had the call *number*."""
    return attrs.evolve(
        some,
        instances=tuple(
            i.but(calls=i.calls.did(number, some.control)) if i.number in ids else i
            for i in some.instances
        ),
    )


def refusing(some: Fleet, number: int, *ids: int, times: int = MOST_ATTEMPTS) -> Fleet:
    def refused(instance: Instance) -> Instance:
        progress = instance.calls
        for _ in range(times):
            progress = progress.said_no(number, "no weights", NOW_S, some.control)
        return instance.but(calls=progress)

    return attrs.evolve(
        some,
        instances=tuple(refused(i) if i.number in ids else i for i in some.instances),
    )


def test_models_are_loaded_by_request_only_where_tritons_were_started_so() -> None:
    """The error says what to do; log settings need nothing of it."""
    with pytest.raises(RefusedError, match=r"models\.control is 'none'") as caught:
        asked(fleet(ready(1)), LOAD, by=rules())
    assert caught.value.code == "TARN-1155"
    log = ControlRequest(CallKind.LOG, body='{"log_info": false}')
    assert asked(fleet(ready(1)), log, by=rules())[1].call == 1


def test_the_same_request_again_is_no_new_call() -> None:
    """A link may ask twice; a reload without a name is new each time, and each has its number."""
    named = attrs.evolve(LOAD, request="a")
    some, done = asked(fleet(ready(1)), named, named)
    assert (done.call, len(some.control.calls)) == (1, 1)
    some, done = asked(some, LOAD, named)
    assert done.call == 1  # overtaken meanwhile, and known all the same
    assert [call.number for call in some.control.calls] == [2]
    assert asked(some, LOAD)[1].call == 3


def test_settings_are_added_up_and_end_with_their_model() -> None:
    """A later instance gets all of them at once; null stays, for it unsets one."""
    one_ = ControlRequest(CallKind.TRACE, "echo", '{"trace_rate": "1", "trace_count": "2"}')
    two = ControlRequest(CallKind.TRACE, "echo", '{"trace_rate": null}')
    some, _ = asked(fleet(ready(1)), one_, two)
    (call,) = some.control.calls
    assert json.loads(call.body) == {"trace_rate": None, "trace_count": "2"}
    some, _ = asked(some, ControlRequest(CallKind.UNLOAD, "echo"))
    assert [call.kind for call in some.control.calls] == [CallKind.UNLOAD]


def test_what_is_kept_is_bounded_in_number_and_size() -> None:
    """A state is saved with every change."""
    some = fleet(ready(1))
    with pytest.raises(RefusedError, match="would be kept") as caught:
        asked(some, attrs.evolve(LOAD, body=json.dumps({"config": "x" * 200_000})))
    assert caught.value.code == "TARN-1165"
    named = WantedCalls(
        200,
        tuple(ControlCall(n, CallKind.LOAD, f"m{n}", request="\ud800" * 1000) for n in range(200)),
    )
    with pytest.raises(RefusedError, match="would be kept"):  # what callers choose counts, too
        asked(attrs.evolve(some, control=named), LOAD)
    many = WantedCalls(
        MOST_CALLS,
        tuple(ControlCall(n, CallKind.LOAD, f"m{n}") for n in range(1, MOST_CALLS + 1)),
    )
    with pytest.raises(RefusedError, match=f"{MOST_CALLS + 1} calls"):
        asked(attrs.evolve(some, control=many), LOAD)
    again = ControlRequest(CallKind.LOAD, "m1")
    assert asked(attrs.evolve(some, control=many), again)[1].call == MOST_CALLS + 1


def test_a_call_is_done_once_everybody_has_answered() -> None:
    """Who starts, or is out of the view, is waited for; who refuses stays named."""
    some, _ = asked(fleet(ready(1), ready(2, suspect="no answer")), LOAD)
    some = having(some, 1, 1)
    assert settle_calls(some, EXPLICIT, AT) is some
    stand = [(s.state, s.why) for s in who_has(some.instances, some.control.calls[0])]
    assert stand == [
        (CallState.HAS, ""),
        (CallState.NOT_YET, "it is out of the view: no answer"),
    ]
    some = settle_calls(refusing(some, 1, 2), EXPLICIT, AT)
    assert codes(some)[-1] == "TARN-1125"
    assert not some.control.unsettled
    assert behind(some, AT + 60.0) == "load of second (call 1): w-0002 refuses (no weights)"
    assert behind(some, AT) == ""


def test_what_nobody_can_do_is_dropped_and_the_former_call_is_wanted_again() -> None:
    """Triton keeps what it had when a load fails: so does who starts later."""
    some, _ = asked(fleet(ready(1)), attrs.evolve(LOAD, body='{"config": "a"}'))
    some = settle_calls(having(some, 1, 1), EXPLICIT, AT)
    some, _ = asked(some, attrs.evolve(LOAD, body='{"config": "bad"}'))
    some = settle_calls(refusing(some, 2, 1), EXPLICIT, AT)
    assert [call.number for call in some.control.calls] == [1]
    assert codes(some)[-1] == "TARN-1145"
    outcome = some.control.over[-1]
    assert (outcome.call.number, outcome.refused) == (2, (("w-0001", "no weights"),))
    fresh = CallProgress(2).pruned(some.control)
    call, _ = next_call(some.control, fresh, NOW_S)
    assert call is not None
    assert call.number == 1


def test_an_unload_is_forgotten_where_a_start_does_not_load_the_model() -> None:
    """Else the names of models that came and went would be kept for ever."""
    unload = ControlRequest(CallKind.UNLOAD, "second")
    for serve, kept in ((("echo",), 0), (("second",), 1), ((), 1)):
        by = explicit(*serve)
        some, _ = asked(fleet(ready(1)), unload, by=by)
        some = settle_calls(having(some, 1, 1), by, AT)
        assert len(some.control.calls) == kept


def test_a_refused_call_is_sent_again_a_few_times_and_holds_up_no_other() -> None:
    """After pauses that grow; then only another call is new."""
    some, _ = asked(fleet(ready(1)), LOAD, attrs.evolve(LOAD, model="third"))
    progress, sent, now_s = CallProgress(), [], NOW_S
    for _ in range(20):
        call, wait_s = next_call(some.control, progress, now_s)
        if call is None:
            if wait_s is None:
                break
            now_s += wait_s
            continue
        sent.append(call.number)
        progress = (
            progress.said_no(1, "no", now_s, some.control)
            if call.number == 1
            else progress.did(2, some.control)
        )
    assert sent == [1, 2, 1, 1, 1]
    assert now_s == NOW_S + 1.0 + 2.0 + 4.0
    assert progress.gave_up(1)


def test_an_instance_that_each_attempt_takes_away_is_not_asked_for_ever() -> None:
    """What it refused before is asked again at once; in all, only so often."""
    some, _ = asked(fleet(ready(1)), LOAD)
    progress, attempts = CallProgress(), 0
    while next_call(some.control, progress, NOW_S)[0] is not None:
        progress = progress.said_no(1, "cut off", NOW_S, some.control).seen_again()
        attempts += 1
    assert attempts == MOST_ATTEMPTS_EVER
    assert progress.gave_up(1)


def seen(some: Fleet, number: int, *models: ModelState, by: Rules = EXPLICIT) -> Instance:
    """Return what becomes of an instance whose Triton lists *models*."""
    calls = one(some, number).calls
    looked: Reading = attrs.evolve(reading(number, models=models), calls=calls)
    after = fold_readings(some, {looked.instance_id: looked}, by, NOW_S, AT)
    return one(after, number)


ECHO = ModelState("echo", "READY", versions=("1",))


@pytest.mark.parametrize(
    "models",
    [
        (ECHO, ModelState("second", "LOADING")),
        (ModelState("echo", "LOADING", versions=("1",)),),
        (ECHO, ModelState("second", "UNAVAILABLE", "no weights")),
    ],
)
@pytest.mark.parametrize("require", ["any", "all"])
def test_loading_more_takes_nobody_out_of_the_view(
    models: tuple[ModelState, ...], require: str
) -> None:
    """The whole fleet loads at once; what each served before it serves meanwhile."""
    by = explicit(require=require)
    some = fleet(ready(1, models=(("echo", "READY", ""),)))
    some, _ = asked(some, LOAD, by=by)
    assert seen(some, 1, *models, by=by).suspect == ""


def test_a_model_that_was_served_and_is_not_any_more_takes_it_out() -> None:
    """A person unloaded it there, or its load began again."""
    some = fleet(ready(1, models=(("echo", "READY", ""), ("nap", "READY", ""))))
    left = seen(some, 1, ECHO, ModelState("nap", "UNLOADING"), by=explicit())
    assert left.suspect == "loading model 2 of 2: nap"


def test_what_is_to_be_unloaded_says_nothing_of_an_instance() -> None:
    """Neither while its last requests end, nor after that."""
    by = explicit(require="all")
    some = fleet(ready(1, models=(("echo", "READY", ""), ("nap", "READY", ""))))
    some, _ = asked(some, ControlRequest(CallKind.UNLOAD, "nap"), by=by)
    for state in (ModelState("nap", "UNLOADING"), ModelState("nap", "UNAVAILABLE", "unloaded")):
        now = seen(some, 1, ECHO, state, by=by)
        assert (now.suspect, now.models) == ("", (("echo", "READY", ""),))


def test_a_new_instance_serves_only_once_it_has_every_call() -> None:
    """It says what it waits for; what it refuses and others have keeps it out."""
    some, _ = asked(fleet(ready(1), starting(2)), LOAD)
    assert not seen(some, 2, ECHO).serving
    assert seen(some, 2, ECHO).reason == "it has not carried out the load of second yet (call 1)"
    assert seen(some, 2, ECHO).stuck_s is None
    assert seen(having(some, 1, 2), 2, ECHO).serving
    assert seen(refusing(some, 1, 2), 2, ECHO).serving  # nobody serves it
    refused = seen(refusing(having(some, 1, 1), 1, 2), 2, ECHO)
    assert "which others in the view have carried out: no weights" in refused.reason
    assert refused.stuck_s is not None


def test_who_comes_back_has_every_call_first() -> None:
    """One that an earlier master had in the view waits only for what it lacked before that."""
    some, _ = asked(fleet(ready(1, suspect="no answer")), LOAD)
    assert "has not carried out the load of second" in seen(some, 1, ECHO).suspect
    assert seen(having(some, 1, 1), 1, ECHO).suspect == ""
    some, _ = asked(fleet(starting(1, adopted=True)), LOAD)
    assert seen(some, 1, ECHO).serving


def test_a_state_of_an_earlier_version_is_read() -> None:
    """It knows nothing of control calls, and nothing was wanted."""
    document = json.loads(written(SavedState(2, calls_complete=("w-0001",)), EPOCH))
    for name in [n for n in document["state"] if "call" in n]:
        del document["state"][name]
    old = StateFile("state.1", "/state.1", lambda: json.dumps(document).encode())
    assert newest([old]) == (SavedState(2), ())


def test_a_state_with_control_calls_is_read_as_it_was_written() -> None:
    """Numbers, kinds and who had what."""
    call = ControlCall(3, CallKind.LOAD, "second", '{"config": "{}"}', AT, "a")
    state = SavedState(
        1,
        call_number=3,
        calls=(call,),
        former_calls=(attrs.evolve(call, number=2),),
        unsettled_calls=frozenset({3}),
        calls_had=(("w-0001", 2, 1, (3,)),),
        calls_complete=("w-0002",),
    )
    file = StateFile("state.1", "/state.1", lambda: written(state, EPOCH))
    assert newest([file]) == (state, ())
