"""The fake and the real Triton, side by side: where the fake could lie, and what it must not."""

import json
import operator
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import ask
from servers.triton import DEADLINE_S, Clock, infer_body, needed, real_triton

from tarn.control.scrape import ProbeTarget, Scraper
from tarn.domain import Endpoint, Known
from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.testing.wait import until
from tarn.triton.metrics import FAMILIES, parse

pytestmark = needed


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with real_triton(tmp_path_factory.mktemp("triton"), exit_s=5) as (_, endpoint):
        yield endpoint


@pytest.fixture(scope="module")
def fake() -> Iterator[Endpoint]:
    bad = FakeModel("bad", error="Internal: RuntimeError: no weights")
    with FakeTriton("nap", bad) as triton:
        yield triton.endpoint


def is_like(fake: object, real: object) -> bool:
    """Say whether *fake* has nothing that *real* does not have, and of the same types."""
    if isinstance(fake, dict) and isinstance(real, dict):
        return all(key in real and is_like(part, real[key]) for key, part in fake.items())
    if isinstance(fake, list) and isinstance(real, list):
        return not fake or not real or all(is_like(part, real[0]) for part in fake)
    return type(fake) is type(real)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v2/health/live", b""),
        ("GET", "/v2/health/ready", b""),
        ("GET", "/v2", b""),
        ("GET", "/v2/nonsense", b""),
        ("POST", "/v2/repository/index", b""),
        ("GET", "/v2/models/nap", b""),
        ("GET", "/v2/models/nap/ready", b""),
        ("GET", "/v2/models/nap/versions/1/ready", b""),
        ("GET", "/v2/models/nap/config", b""),
        ("GET", "/v2/models/nap/stats", b""),
        ("GET", "/v2/models/stats", b""),
        ("GET", "/v2/models/bad/ready", b""),
        ("GET", "/v2/models/unknown", b""),
        ("POST", "/v2/models/nap/infer", infer_body(0.0)),
        ("POST", "/v2/models/unknown/infer", infer_body(0.0)),
        ("POST", "/v2/models/bad/infer", infer_body(0.0)),
        ("POST", "/v2/models/nap/infer", b"{}"),
        ("POST", "/v2/models/nap/infer", b"nonsense"),
        ("POST", "/v2/models/nap/infer", b'{"inputs": 1}'),
        ("POST", "/v2/models/nap/infer", b'{"inputs": [{}]}'),
        ("GET", "/v2/models/bad", b""),
        ("POST", "/v2/repository/models/unknown/load", b""),
        ("POST", "/v2/repository/models/bad/load", b""),
        ("POST", "/v2/repository/models/unknown/unload", b""),
    ],
)
def test_answers_have_the_same_shape(
    triton: Endpoint, fake: Endpoint, method: str, path: str, body: bytes
) -> None:
    """Status, content type, keys and types; the fake may leave out, never invent."""
    real_status, real_kind, real_body = ask(triton.http_port, method, path, body)
    status, kind, answer = ask(fake.http_port, method, path, body)
    assert (status, kind) == (real_status, real_kind)
    if real_body and kind == "application/json":
        assert is_like(json.loads(answer), json.loads(real_body)), (answer, real_body)


def test_the_index_says_the_same_of_good_and_broken_models(
    triton: Endpoint, fake: Endpoint
) -> None:
    """Names, versions, states; a reason where it is broken and nowhere else."""

    def told(endpoint: Endpoint) -> list[tuple[str, str, str, bool]]:
        rows = json.loads(ask(endpoint.http_port, "POST", "/v2/repository/index")[2])
        return sorted((r["name"], r["version"], r["state"], "reason" in r) for r in rows)

    assert told(fake) == told(triton)


def test_metrics_have_the_same_families_and_labels(triton: Endpoint, fake: Endpoint) -> None:
    """All that we read and a machine without GPU has; broken models show failures only."""

    def told(endpoint: Endpoint) -> dict[str, list[tuple[str, list[str]]]]:
        metrics = parse(ask(endpoint.metrics_port, "GET", "/metrics")[2])
        return {
            family: sorted(
                (labels["model"], sorted(labels)) for labels, _ in metrics.samples(family)
            )
            for family in FAMILIES
        }

    ask(triton.http_port, "POST", "/v2/models/nap/infer", infer_body(0.0))
    assert told(fake) == told(triton)
    types = re.compile(r"# TYPE (nv_inference_\S+) (\S+)")
    real = types.findall(ask(triton.metrics_port, "GET", "/metrics")[2].decode())
    assert set(types.findall(ask(fake.metrics_port, "GET", "/metrics")[2].decode())) <= set(real)


def test_no_triton_tells_what_executes(triton: Endpoint) -> None:
    """The fact that `tarn.triton.activity` rests on: busy looks like idle, digit by digit."""

    def told() -> tuple[object, bytes]:
        series = parse(ask(triton.metrics_port, "GET", "/metrics")[2]).series
        return series, ask(triton.http_port, "GET", "/v2/models/stats")[2]

    first = told()
    ask(triton.http_port, "POST", "/v2/models/nap/infer", infer_body(0.0))
    until(lambda: all(map(operator.ne, told(), first)), DEADLINE_S)  # counted after the answer
    before = told()
    slow = threading.Thread(
        target=ask, args=(triton.http_port, "POST", "/v2/models/nap/infer", infer_body(1.5))
    )
    slow.start()
    threading.Event().wait(0.7)
    assert slow.is_alive()
    assert told() == before
    slow.join(DEADLINE_S)
    until(lambda: told() != before, DEADLINE_S)  # counted after the answer


def test_the_scraper_reads_a_real_triton(triton: Endpoint) -> None:
    """Live, one model READY, one broken with Triton's own words, and quiet in the end."""
    scraper = Scraper(Clock(), 0.2, 2.0, lambda: None)
    scraper.start()
    try:
        scraper.watch({"a": ProbeTarget(triton)})
        end_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
        while True:
            reading = scraper.readings().get("a")
            if reading is not None and getattr(reading.busy, "value", None) == 0:
                break
            assert time.monotonic() < end_s, reading
            pause.wait(0.05)
    finally:
        scraper.close()
    assert isinstance(reading.models, Known)
    bad, nap = reading.models.value
    assert (bad.state, nap.state) == ("UNAVAILABLE", "READY")
    assert "no weights" in bad.reason


@pytest.mark.parametrize("held", [True, False])
def test_an_idle_connection_holds_the_exit_of_a_real_triton(tmp_path: Path, held: bool) -> None:
    """Why `ProbeTarget.leaving` exists: exit code 1 at the time-out with it, else 0, sooner."""
    with (
        real_triton(tmp_path, exit_s=8) as (process, endpoint),
        socket.create_connection(("127.0.0.1", endpoint.http_port)) as kept,
    ):
        kept.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        kept.recv(1000)
        if not held:
            kept.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == (1 if held else 0)
