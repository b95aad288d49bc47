"""The signals of a real Triton under a load that is known."""

import contextlib
import http.client
import json
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
from asking import ask
from servers.triton import Clock, infer_body, needed, real_triton

from tarn.control.scrape import Families, ProbeTarget, Scraper
from tarn.domain import Endpoint, FleetView, Instance, InstanceState, Known, Limits, Sample, Unknown
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import Signals, SignalSelection
from tarn_plugins.signals.latency_p95 import COUNT, SUMMARY, LatencyP95

pytestmark = needed

EACH_S = 0.025
AT_ONCE = 2
LOAD_S = 6.0
LOOK_S = 0.1
"""Often, since what waits at one moment is one or none: thirty looks make a mean."""


@attrs.define
class Looking:
    """Looks as a master does: scraper, signals, those of plugins."""

    endpoint: Endpoint
    signals: Signals = attrs.field(
        factory=lambda: Signals(
            kept=SignalSelection({"nv_inference_count": "nv_inference_count"}, samples_s=30.0)
        )
    )
    plugin: PluginSignals = attrs.field(
        factory=lambda: PluginSignals({"latency_p95": LatencyP95().read})
    )

    def look(self, for_s: float) -> FleetView:
        """Look ten times a second, and return what a policy would see in the end."""
        ready = (Instance("a", "hash", InstanceState.READY),)
        families = Families(("nv_inference_count",), (SUMMARY, COUNT))
        scraper = Scraper(Clock(), LOOK_S, 2.0, lambda: None, families=families)
        scraper.start()
        try:
            scraper.watch({"a": ProbeTarget(self.endpoint)})
            end_s, pause = time.monotonic() + for_s, threading.Event()
            while (now_s := time.monotonic()) < end_s:
                readings = scraper.readings()
                self.signals = self.signals.looked(ready, readings, now_s, oldest_s=7.0)
                self.plugin = self.plugin.looked(self.signals.samples, now_s)
                pause.wait(LOOK_S)
        finally:
            scraper.close()
        shown = FleetView(now_s, 1, Limits(0, 4), ready, dict(self.signals.history))
        return self.plugin.shown(shown)


def load(endpoint: Endpoint, until_s: float, took: list[float]) -> None:
    """Ask as one client who waits for each answer, and then asks at once: it keeps a connection."""
    connection = http.client.HTTPConnection(endpoint.host, endpoint.http_port, timeout=60)
    with contextlib.closing(connection):
        while time.monotonic() < until_s:
            began_s = time.monotonic()
            connection.request("POST", "/v2/models/nap/infer", infer_body(EACH_S))
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            took.append(time.monotonic() - began_s)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Two clients at one model instance, which takes 25 ms: each waits for the other."""
    path, setting = tmp_path_factory.mktemp("triton"), "--metrics-config=summary_latencies=true"
    with real_triton(path, 5, setting) as (_, endpoint):
        took: list[float] = []
        began_s = time.monotonic()
        arguments = (endpoint, began_s + LOAD_S, took)
        clients = [threading.Thread(target=load, args=arguments) for _ in range(AT_ONCE)]
        for client in clients:
            client.start()
        looking = Looking(endpoint)
        busy = looking.look(LOAD_S)
        for client in clients:
            client.join(60.0)
        ended_s = time.monotonic() - began_s
        yield SimpleNamespace(
            busy=busy,
            took=took,
            per_s=len(took) / ended_s,
            stats=stats(endpoint),
            idle=looking.look(4.0),
            endpoint=endpoint,
        )


def stats(endpoint: Endpoint) -> dict[str, float]:
    """What Triton's own statistics say: mean seconds in the queue, and of a request."""
    said = json.loads(ask(endpoint.http_port, "GET", "/v2/models/nap/stats")[2])
    inference = said["model_stats"][0]["inference_stats"]
    return {
        name: inference[name]["ns"] / inference[name]["count"] / 1e9
        for name in ("queue", "success")
    }


def mean(view: FleetView, name: str) -> float:
    """The mean of what is known in the second half of the load."""
    since_s = view.now_s - LOAD_S / 2
    known = [s.value for at_s, s in view.signals[name] if at_s > since_s and isinstance(s, Known)]
    assert len(known) >= 10, view.signals[name]
    return statistics.fmean(known)


def test_queue_time_is_25_ms(loaded: SimpleNamespace) -> None:
    """As long as the other client's request takes; no more than a loaded machine adds."""
    assert mean(loaded.busy, "queue_time") == pytest.approx(loaded.stats["queue"], rel=0.3)
    assert EACH_S * 0.8 < mean(loaded.busy, "queue_time") < EACH_S * 2


def test_request_time_is_what_the_clients_waited(loaded: SimpleNamespace) -> None:
    """Less their own time for a connection."""
    waited_s = statistics.fmean(loaded.took)
    assert EACH_S * 1.8 < mean(loaded.busy, "request_time") < waited_s * 1.1


def test_two_are_in_flight_and_one_would_be_enough_to_answer_them(loaded: SimpleNamespace) -> None:
    """One executes, one waits; what is offered is one request at any time.

    None waits while a client that has its answer makes its next request.
    """
    assert mean(loaded.busy, "executing") == pytest.approx(1.0, abs=0.3)
    assert 0.3 < mean(loaded.busy, "pending") <= 1.0
    assert 1.2 < mean(loaded.busy, "in_flight") < 2.4
    assert mean(loaded.busy, "offered_load") == pytest.approx(1.0, abs=0.3)


def test_the_rate_is_what_the_clients_got(loaded: SimpleNamespace) -> None:
    """And nothing failed."""
    assert mean(loaded.busy, "requests_per_s") == pytest.approx(loaded.per_s, rel=0.3)
    assert mean(loaded.busy, "failures_per_s") == 0.0


def test_latency_p95_is_that_of_the_clients(loaded: SimpleNamespace) -> None:
    """By Triton's summaries, in seconds."""
    said = loaded.busy.latest("latency_p95")
    assert isinstance(said, Known)
    assert EACH_S * 1.8 < said.value < statistics.quantiles(loaded.took, n=20)[-1] * 1.2


def test_a_metric_is_read_by_its_name(loaded: SimpleNamespace) -> None:
    """Every request of the clients was counted, once."""
    assert value(loaded.idle.latest("nv_inference_count")) == len(loaded.took)


def test_without_a_gpu_its_use_is_unknown(loaded: SimpleNamespace) -> None:
    """A reason, not zero."""
    said = loaded.busy.latest("gpu_utilization")
    assert isinstance(said, Unknown)
    assert "a build without GPU" in said.reason


def test_afterwards_it_is_idle(loaded: SimpleNamespace) -> None:
    """Nothing in flight, no rate; and no durations, since nothing ended."""
    for name in ("in_flight", "offered_load", "requests_per_s"):
        assert value(loaded.idle.latest(name)) == 0.0
    assert loaded.idle.latest("queue_time") == Unknown("no request ended since the last sample")


def value(sample: Sample[float]) -> float:
    assert isinstance(sample, Known), sample
    return sample.value


def test_without_the_setting_latency_p95_says_which_it_is(tmp_path: Path) -> None:
    """As it stands in the spec."""
    with real_triton(tmp_path, 5) as (_, endpoint):
        said = Looking(endpoint).look(2.0).latest("latency_p95")
    setting = "triton: {args: {metrics-config: [summary_latencies=true]}}"
    assert isinstance(said, Unknown)
    assert f"no {SUMMARY}: Triton gives it with {setting} in the spec" in said.reason
