"""Emptying a Triton before its stop, against fakes on real sockets."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable

import pytest
from test_scrape import Watcher, watching

from tarn.control.scrape import ProbeTarget
from tarn.domain import Known, Reading, Unknown
from tarn.testing.fake_triton import FakeModel, FakeTriton


def is_empty(reading: Reading) -> bool:
    return reading.unloaded == Known(value=True)


def asks(triton: FakeTriton) -> list[str]:
    """Return the names of the models that were asked to unload, in order."""
    return [path.split("/")[-2] for _, path, _ in triton.requests if path.endswith("/unload")]


def set_target(watcher: Watcher, triton: FakeTriton, **target: bool) -> None:
    watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, **target)})


def infer(triton: FakeTriton, model: str) -> threading.Thread:
    """Begin a request, and return once it executes."""
    where = f"http://{triton.endpoint.http}/v2/models/{model}/infer"
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [1.0]}
    body = json.dumps({"inputs": [tensor]}).encode()
    asking = threading.Thread(target=lambda: urllib.request.urlopen(where, body, 10).read())
    asking.start()
    holds(lambda: triton.executing > 0)
    return asking


def holds(true: Callable[[], bool]) -> None:
    pause, end_s = threading.Event(), time.monotonic() + 10.0
    while not true():
        assert time.monotonic() < end_s
        pause.wait(0.002)


def test_nothing_is_unloaded_before_it_is_asked_for() -> None:
    """A reading says so with None, which is neither yes nor no."""
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        assert watcher.until(lambda r: bool(r.metrics)).unloaded is None
        assert asks(triton) == []
        set_target(watcher, triton, unload=True)
        watcher.until(is_empty)
        assert asks(triton) == ["m"]
        set_target(watcher, triton, unload=True, leaving=True)
        holds(lambda: triton.http_connections == 0)
    assert watcher.scraper.readings()["a"].unloaded == Known(value=True)


def test_the_end_of_the_last_request_is_waited_for() -> None:
    """Whatever an estimate says: a request far longer than any before is work."""
    with FakeTriton(FakeModel("m", latency_s=1.5)) as triton:
        asking = infer(triton, "m")
        with watching(a=ProbeTarget(triton.endpoint, unload=True)) as watcher:
            watcher.until(lambda r: r.unloaded == Known(value=False))
            watcher.until(is_empty)
            assert triton.model("m").successes == 1
        asking.join(5)


def test_models_go_one_after_the_other() -> None:
    """The next one is asked for only when the one before is gone: it may be called by that one."""
    models = [FakeModel("a", latency_s=1.0), FakeModel("b")]
    with FakeTriton(*models) as triton:
        asking = infer(triton, "a")
        with watching(a=ProbeTarget(triton.endpoint, unload=True)) as watcher:
            seen: list[list[str]] = []
            holds(lambda: bool(seen.append(asks(triton)) or triton.model("a").successes))
            assert seen[-1] == ["a"]
            watcher.until(is_empty)
        assert asks(triton) == ["a", "b"]
        asking.join(5)


@pytest.mark.parametrize("what", ["hang", "crash"])
def test_no_answer_is_no_refusal(what: str) -> None:
    """It is asked again; that it is gone, others say."""
    with FakeTriton("m") as triton:
        getattr(triton, what)()
        with watching(a=ProbeTarget(triton.endpoint, unload=True), timeout_s=0.2) as watcher:
            watcher.until(lambda r: isinstance(r.live, Unknown) and r.unloaded is not None)
            assert watcher.scraper.readings()["a"].unloaded == Known(value=False)


class Refusing(FakeTriton):
    """A Triton whose control API is restricted."""

    def __init__(self) -> None:
        super().__init__("m")
        answer = self._server._change

        async def refuse(name: str, verb: str) -> object:
            reply = await answer("nobody", "load")
            return type(reply)(403, b'{"error":"this API is restricted"}') if verb else name

        self._server._change = refuse  # type: ignore[assignment]


def test_a_refusal_is_said_in_words() -> None:
    """Who asked falls back to the estimate, and says so."""
    with Refusing() as triton, watching(a=ProbeTarget(triton.endpoint, unload=True)) as watcher:
        told = watcher.until(lambda r: isinstance(r.unloaded, Unknown)).unloaded
    where = "POST /v2/repository/models/m/unload"
    assert told == Unknown(f'Triton refused {where}: 403 {{"error":"this API is restricted"}}')
