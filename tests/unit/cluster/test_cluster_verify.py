import threading
import time
from contextlib import ExitStack

import attrs
import pytest
from fake_fleet import instance, status

from tarn.clock import SystemClock
from tarn.cluster import Cluster
from tarn.cluster.operate import verifying
from tarn.cluster.operate.verifying import VerifyOptions, verify
from tarn.errors import ConfigError, NotFoundError, UnreachableError
from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.testing.wait import until


@pytest.fixture
def tritons():
    """Two fakes that serve two models each."""
    with ExitStack() as stack:
        yield [stack.enter_context(FakeTriton("echo", "ocr")) for _ in range(2)]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the view ten times as often as a user needs."""
    monkeypatch.setattr(verifying, "LOOK_EVERY_S", 0.1)


def shown(*tritons: FakeTriton, models: tuple[str, ...] = ("echo", "ocr"), **more):
    """A status whose instances are *tritons*."""
    served = [{"name": model, "state": "READY", "reason": ""} for model in models]
    items = (
        instance(number, http=triton.endpoint.http, models=served)
        for number, triton in enumerate(tritons, 1)
    )
    return status(instances=tuple(items), **more)


def run(look, order: VerifyOptions, hear=None):
    """Verify the cluster that *look* shows."""
    return verify("demo", look, order, SystemClock(), hear)


def test_every_instance_gets_every_model(tritons):
    """Round robin over the pairs; each request once, and all answered."""
    done = run(lambda: shown(*tritons), VerifyOptions(400, 0.1))
    assert done.ok
    assert (done.total.sent, done.models) == (40, ("echo", "ocr"))
    assert [line.sent for line in done.instances] == [20, 20]
    for triton in tritons:
        paths = [path for method, path, _ in triton.requests if method == "POST"]
        for model in ("echo", "ocr"):
            assert paths.count(f"/v2/models/{model}/infer") == 10


def test_a_slow_instance_delays_no_other(tritons, quick):
    """Open loop: the other got all of its requests while this one answered none.

    And latency counts from when a request was due.
    """
    fast, slow = tritons
    view, begun_s = shown(fast, slow), time.monotonic()
    slow.hang()

    def look():
        got = sum(method == "POST" for method, _, _ in fast.requests)
        if got == 10 and time.monotonic() - begun_s > 0.5:
            slow.thaw()
        return view

    done = run(look, VerifyOptions(200, 0.1, models=("echo",), slow_s=0.25))
    assert [(line.sent, line.lost) for line in done.instances] == [(10, 0), (10, 0)]
    assert done.instances[1].slow == 10
    assert done.instances[1].p50_s > 0.25


def test_a_dead_instance_is_named(tritons):
    """Every loss is its own; the other lost none."""
    everything = shown(*tritons)
    tritons[1].crash()
    done = run(lambda: everything, VerifyOptions(100, 0.2, models=("echo",)))
    assert not done.ok
    assert [(line.lost, line.sent) for line in done.instances] == [(0, 10), (10, 10)]
    assert done.errors == (("demo-0002", "echo", "connection refused", 10),)


def test_an_answer_that_is_too_late_is_lost(tritons):
    """A hanging instance holds nobody up for longer than the time-out."""
    one, two = tritons
    everything = shown(one, two)
    two.hang()
    done = run(lambda: everything, VerifyOptions(100, 0.1, models=("echo",), timeout_s=1.0))
    assert [line.lost for line in done.instances] == [0, 5]
    assert done.errors == (("demo-0002", "echo", "no answer within 1 s", 5),)


def test_tritons_own_words_are_kept(tritons):
    """A model that refuses says why."""
    order = VerifyOptions(50, 0.1, models=("echo",), body=b"this is no JSON")
    done = run(lambda: shown(tritons[0]), order)
    assert done.total.lost == 5
    ((_, _, why, count),) = done.errors
    assert why.startswith("500: failed to parse the request JSON buffer")
    assert count == 5


def test_a_given_body_is_sent_as_it_is(tritons):
    """Not even its white space changes."""
    body = b'{"inputs": [{"name": "IN",  "datatype": "FP32", "shape": [1], "data": [2]}]}'
    assert run(lambda: shown(tritons[0]), VerifyOptions(50, 0.1, models=("ocr",), body=body)).ok
    assert [sent for _, _, sent in tritons[0].requests] == [body] * 5


def test_the_view_is_followed(tritons, quick):
    """Whoever leaves it gets nothing more; a master that is gone changes nothing."""
    one, two = tritons
    looks = iter([shown(one, two), UnreachableError("no master"), shown(one)])
    last = shown(one)

    def look():
        seen = next(looks, last)
        if isinstance(seen, Exception):
            raise seen
        return seen

    heard = []
    done = run(look, VerifyOptions(100, 0.5, models=("echo",)), heard.append)
    assert done.ok
    first, second = done.instances
    assert first.sent > second.sent > 0
    assert heard[-1].of == 50


@pytest.mark.parametrize(
    ("order", "error", "words"),
    [
        (lambda: VerifyOptions(0, 1), ConfigError, "0 requests a second"),
        (lambda: VerifyOptions(2000, 1), ConfigError, "at most 1000"),
        (lambda: VerifyOptions(1, 0), ConfigError, "would send nothing"),
        (
            lambda: VerifyOptions(1, 1, body=b"{}"),
            ConfigError,
            "one request body cannot fit all models",
        ),
        (lambda: VerifyOptions(1, 1, ("a", "b"), body=b"{}"), ConfigError, "fit 2 models"),
        (lambda: VerifyOptions(1, 1, ("orc",)), NotFoundError, "Did you mean 'ocr'"),
        (lambda: VerifyOptions(1, 1, ("zzz",)), NotFoundError, "Served models: echo, ocr"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_sent(tritons, order, error, words):
    """Limits, models that nobody serves, one body for several models."""
    with pytest.raises(error, match=words):
        run(lambda: shown(tritons[0]), order())
    assert tritons[0].requests == []


def test_without_a_ready_instance_nothing_can_be_verified(tritons):
    """Suspect or starting ones get no traffic, so no canary either."""
    cold = status(instances=(instance(1, "starting"), instance(2, suspect="silent")))
    with pytest.raises(UnreachableError, match="no instance is ready"):
        run(lambda: cold, VerifyOptions(1, 1))
    with pytest.raises(NotFoundError, match="which models"):
        run(lambda: shown(tritons[0], models=()), VerifyOptions(1, 1))


def test_a_model_that_tells_nothing_is_an_error(tritons):
    """Its metadata is what the request is made of."""
    one = tritons[0]
    one.state.models["broken"] = FakeModel("broken", error="no")
    with pytest.raises(UnreachableError, match=r"metadata cannot be read: .*no available versions"):
        run(lambda: shown(one, models=("broken",)), VerifyOptions(1, 1))
    gone = shown(one)
    one.crash()
    with pytest.raises(UnreachableError, match="connection refused"):
        run(lambda: gone, VerifyOptions(1, 1))


def test_an_interrupt_leaves_no_thread_behind(tritons, quick):
    """Whoever has seen enough gets the prompt back."""
    everything, looks = shown(tritons[0]), []

    def look():
        looks.append(1)
        if len(looks) > 1:
            raise KeyboardInterrupt
        return everything

    with pytest.raises(KeyboardInterrupt):
        run(look, VerifyOptions(10, 60))
    until(
        lambda: not [t for t in threading.enumerate() if t.name.startswith("verify")],
        within_s=3.0,
    )


def test_the_cluster_takes_durations(fleet, tritons):
    """As everywhere: text with a unit, or seconds."""
    fleet.statuses = [shown(*tritons)]
    around = attrs.evolve(fleet.environment, clock=SystemClock())
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    cluster = Cluster(plain, environment=around).up()
    done = cluster.verify(rps=50, seconds="100ms", models=("echo",), slow="2s")
    assert (done.ok, done.seconds, done.slow_s, done.total.sent) == (True, 0.1, 2.0, 5)
