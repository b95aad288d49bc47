"""Bringing an instance up to the control calls that are wanted, against fakes on real sockets."""

from collections.abc import Callable

import pytest
from test_scrape import Watcher, watching

from tarn.control.scrape import ProbeTarget
from tarn.domain import CallKind, Reading
from tarn.domain import control_calls as calls_of
from tarn.domain.control_calls import (
    MOST_ATTEMPTS,
    NO_CALLS,
    CallProgress,
    ControlCall,
    WantedCalls,
)
from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.triton.restricted import Keys

LOAD, LOG = CallKind.LOAD, CallKind.LOG


def wanted(*calls: ControlCall) -> WantedCalls:
    return WantedCalls(max(call.number for call in calls), calls)


def sent(triton: FakeTriton) -> list[str]:
    """Return the last parts of the paths of all control calls."""
    return [
        "/".join(path.split("/")[-2:]) for method, path, _ in triton.requests if method == "POST"
    ]


def has(number: int) -> Callable[[Reading], bool]:
    return lambda r: r.calls is not None and r.calls.has(number)


def target(triton: FakeTriton, calls: WantedCalls, **more: object) -> ProbeTarget:
    return ProbeTarget(triton.endpoint, calls=calls, **more)  # type: ignore[arg-type]


def set_target(watcher: Watcher, one: ProbeTarget) -> None:
    watcher.scraper.watch({"a": one})


def test_each_call_is_sent_once_in_order_and_a_reload_again() -> None:
    """With their bodies; settings come after the models that they may be about."""
    three = (
        ControlCall(1, LOAD, "echo", '{"config": "{}"}'),
        ControlCall(3, CallKind.UNLOAD, "old", '{"unload_dependents": true}'),
        ControlCall(2, CallKind.TRACE, "echo", '{"trace_rate": "1"}'),
        ControlCall(4, LOG, body='{"log_info": false}'),
    )
    with FakeTriton("echo", "old") as triton:
        with watching(a=target(triton, wanted(*three))) as watcher:
            watcher.until(has(4))
            assert sent(triton) == ["echo/load", "old/unload", "trace/setting", "v2/logging"]
            set_target(watcher, target(triton, wanted(*three[1:], ControlCall(5, LOAD, "echo"))))
            watcher.until(has(5))
            looks = triton.looks
            watcher.until(lambda _: triton.looks > looks + 4)
        assert sent(triton)[4:] == ["echo/load"]
        bodies = [body for method, _, body in triton.requests if method == "POST"]
        assert bodies[0] == b'{"parameters": {"config": "{}"}}'
        assert triton.state.trace_settings["echo"] == {"trace_rate": "1"}
        assert triton.state.log_settings == {"log_info": False}


def test_a_refusal_is_told_with_tritons_words_and_not_repeated_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes after it is sent meanwhile."""
    monkeypatch.setattr(calls_of, "FIRST_PAUSE_S", 0.01)
    calls = wanted(ControlCall(1, LOAD, "bad"), ControlCall(2, LOAD, "nobody"))
    with (
        FakeTriton("echo", FakeModel("bad", error="no weights")) as triton,
        watching(a=target(triton, calls)) as watcher,
    ):
        reading = watcher.until(
            lambda r: r.calls is not None and r.calls.gave_up(1) and r.calls.gave_up(2)
        )
        looks = triton.looks
        watcher.until(lambda _: triton.looks > looks + 4)
        assert (
            sorted(sent(triton)) == ["bad/load"] * MOST_ATTEMPTS + ["nobody/load"] * MOST_ATTEMPTS
        )
    assert reading.calls is not None
    errors = [refusal.error for refusal in reading.calls.refused]
    assert "400 load failed for model 'bad': no weights" in errors
    assert "500 failed to load 'nobody', failed to poll from model repository" in errors


def test_what_its_start_loaded_since_is_not_loaded_again() -> None:
    """It read the repository after the call; another configuration is loaded all the same."""
    calls = wanted(ControlCall(1, LOAD, "echo"), ControlCall(2, LOAD, "nap", '{"config": "{}"}'))
    with FakeTriton("echo", "nap") as triton:
        with watching(a=target(triton, calls, had=CallProgress(born=2))) as watcher:
            watcher.until(has(2))
        assert sent(triton) == ["nap/load"]


def test_nothing_is_sent_to_who_leaves_and_what_it_had_is_not_forgotten() -> None:
    """It may come back from a drain."""
    first, second = ControlCall(1, LOAD, "echo"), ControlCall(2, LOAD, "nap")
    with FakeTriton("echo", "nap") as triton:
        with watching(a=target(triton, wanted(first))) as watcher:
            watcher.until(has(1))
            set_target(watcher, target(triton, NO_CALLS))
            looks = triton.looks
            watcher.until(lambda _: triton.looks > looks + 4)
            set_target(watcher, target(triton, wanted(first, second)))
            watcher.until(has(2))
        assert sent(triton) == ["echo/load", "nap/load"]


def test_restricted_parts_are_opened_with_their_keys() -> None:
    """Each part with its own."""
    with FakeTriton("echo") as triton:
        triton.state.restricted = {"model-repository": ("k", "1"), "logging": ("k", "2")}
        keys = Keys((("model-repository", "k", "1"), ("logging", "k", "2")))
        calls = wanted(ControlCall(1, LOAD, "echo"), ControlCall(2, LOG, body='{"log_info": true}'))
        with watching(a=target(triton, calls, keys=keys)) as watcher:
            watcher.until(has(2))
        assert sent(triton) == ["echo/load", "v2/logging"]


def test_an_instance_that_was_away_is_brought_up_when_it_answers_again() -> None:
    """What it did not answer meanwhile is no refusal."""
    with FakeTriton("echo") as triton:
        triton.hang()
        with watching(a=target(triton, wanted(ControlCall(1, LOAD, "echo")))) as watcher:
            watcher.until(lambda r: "no answer" in str(r.live))
            assert sent(triton) == []
            triton.thaw()
            watcher.until(has(1))
        assert sent(triton) == ["echo/load"]
