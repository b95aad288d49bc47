"""What a real Triton says when one of its models is sick, and what a test request finds out.

One server for all cases, with a model for each. Measured on Triton 2.51 (times on a machine with
two cores); in every case `/v2/health/ready` and `/v2/models/<m>/ready` go on answering 200, and the
repository index says READY. The table is in `docs/explanation/sick-models.md`.
"""

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from asking import ask
from servers.triton import CONFIG, Clock, infer_body, needed, real_triton

from tarn.control.scrape import ProbeTarget, Scraper
from tarn.domain import Endpoint
from tarn.domain.outcomes import TestResult
from tarn.triton.answers import Culprit, blame, error_line
from tarn.triton.metrics import EXECUTIONS, FAILURE, PENDING, SUCCESS, parse
from tarn.triton.test_files import parse as parse_file
from tarn.triton.test_requests import MADE, TestRequest

pytestmark = [pytest.mark.gray, *needed[1:]]

DEADLINE_S = 60.0
STUB_DEAD = "Stub process '{}_0_0' is not healthy."
CODE = '''import os, time
import triton_python_backend_utils as pb

class TritonPythonModel:
    """Falls sick with the first request whose input is below zero, by the way of its name."""

    def initialize(self, args):
        self.sick = False
        self.way = args["model_name"]

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        data = pb.get_input_tensor_by_name(request, "IN").as_numpy()
        self.sick = self.sick or bool((data < 0).any())
        if self.sick and self.way == "exits":
            os._exit(3)
        while self.sick and self.way == "hangs":
            time.sleep(60)
        if self.sick and self.way == "raises":
            raise RuntimeError("CUDA error: device-side assert triggered")
        if self.sick and self.way == "errors":
            return pb.InferenceResponse(error=pb.TritonError("the token has expired"))
        if self.sick and self.way == "wrong":
            data = data + 1
        return pb.InferenceResponse([pb.Tensor("OUT", data)])
'''
SICK = ("killed", "exits", "hangs", "raises", "errors", "wrong")
CONFIGS = {
    **dict.fromkeys(("well", *SICK), CONFIG),
    "half": CONFIG.replace("count: 1", "count: 2"),
    "batch": CONFIG.replace("max_batch_size: 0", "max_batch_size: 4"),
    "sequence": CONFIG + "sequence_batching {}\n",
    "decoupled": CONFIG + "model_transaction_policy {decoupled: true}\n",
}


@attrs.define
class Bench:
    """One real Triton, looked at as a master does."""

    path: Path
    endpoint: Endpoint
    scraper: Scraper
    number: int = 0

    def infer(self, model: str, value: float = 0.0, timeout_s: float = 20.0) -> tuple[int, str]:
        """Return (status, Triton's error line); 0 for no answer."""
        port = self.endpoint.http_port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        try:
            connection.request("POST", f"/v2/models/{model}/infer", infer_body(value))
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, "" if answer.status == 200 else error_line(body)
        except TimeoutError:
            return 0, ""
        finally:
            connection.close()

    def fall_sick(self, model: str) -> tuple[int, str]:
        return self.infer(model, -1.0, 1.0 if model == "hangs" else 20.0)

    def test(self, test: TestRequest, timeout_s: float = 20.0) -> tuple[TestResult, float]:
        """Have *test* sent by the scraper; return what came of it, and after how many seconds."""
        self.number += 1
        test = attrs.evolve(test, number=self.number, timeout_s=timeout_s)
        began_s = time.monotonic()
        self.scraper.watch({"a": ProbeTarget(self.endpoint, test=test)})

        def said() -> bool:
            reading = self.scraper.readings().get("a")  # none before its first look
            tested = None if reading is None else reading.tested
            return tested is not None and tested.number == self.number

        until(said)
        tested = self.scraper.readings()["a"].tested
        assert tested is not None
        assert tested.asked_s >= began_s
        return tested, time.monotonic() - began_s

    def made(self, model: str) -> TestRequest:
        """Return the request of zeros, as the scraper learned it."""
        until(lambda: self.scraper.tests.why_none(model) != "its configuration is not known yet")
        test = self.scraper.tests.test_for(model)
        assert test is not None, self.scraper.tests.why_none(model)
        assert test.source == MADE
        return test

    def counters(self, model: str) -> dict[str, float]:
        """Return what the metrics say: success, each reason of failure, executions, pending."""
        seen = parse(ask(self.endpoint.metrics_port, "GET", "/metrics")[2])
        names = {SUCCESS: "success", EXECUTIONS: "executions", PENDING: "pending"}
        found = {short: seen.by_label(name, "model")[model] for name, short in names.items()}
        for labels, value in seen.samples(FAILURE):
            if labels["model"] == model:
                found[labels["reason"]] = value
        return found

    def grown(self, model: str, before: dict[str, float]) -> dict[str, float]:
        """Return which counters differ from *before*, and by how much."""
        now = self.counters(model)
        return {name: now[name] - before[name] for name in now if now[name] != before[name]}

    def stubs(self, model: str) -> list[int]:
        """Return the Python processes of *model*."""
        code = str(self.path / "models" / model / "1" / "model.py")
        processes = Path("/proc").glob("[0-9]*")
        return sorted(int(one.name) for one in processes if code in command_line(one))

    def says_it_is_well(self, model: str) -> bool:
        port = self.endpoint.http_port
        paths = ("/v2/health/live", "/v2/health/ready", f"/v2/models/{model}/ready")
        index = json.loads(ask(port, "POST", "/v2/repository/index")[2])
        ready = [row["state"] for row in index if row["name"] == model] == ["READY"]
        return ready and all(ask(port, "GET", path)[0] == 200 for path in paths)


def command_line(process: Path) -> list[str]:
    try:
        return (process / "cmdline").read_text().split("\0")
    except OSError:
        return []


def until(holds: Callable[[], bool]) -> None:
    end_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not holds():
        assert time.monotonic() < end_s
        pause.wait(0.02)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    path = tmp_path_factory.mktemp("sick")
    models = {name: (CODE, config) for name, config in CONFIGS.items()}
    faster = "--disable-auto-complete-config"  # half as many Python processes to start
    with real_triton(path, 1, faster, models=models) as (_, endpoint):
        scraper = Scraper(Clock(), 0.25, 2.0, lambda: None)
        scraper.start()
        try:
            scraper.watch({"a": ProbeTarget(endpoint)})
            yield Bench(path, endpoint, scraper)
        finally:
            scraper.close()


def test_a_model_that_is_well_answers_zeros(bench: Bench) -> None:
    """In some 10 ms; a batch is one of one."""
    for model in ("well", "batch"):
        test = bench.made(model)
        before = bench.counters(model)
        tested, took_s = bench.test(test)
        assert (tested.ok, tested.said) == (True, "")
        assert bench.grown(model, before) == {"success": 1.0, "executions": 1.0}
        assert took_s < 10.0


def test_a_model_that_is_not_safe_for_it_gets_none(bench: Bench) -> None:
    """Sequences have a state; a decoupled model is refused over HTTP (501)."""
    until(lambda: "sequence" in bench.scraper.tests.why_none("sequence"))
    until(lambda: "decoupled" in bench.scraper.tests.why_none("decoupled"))
    assert bench.infer("decoupled")[0] == 501


def test_a_killed_stub_fails_each_request_after_a_second(bench: Bench) -> None:
    """``kill -9`` of its Python process: 500 after 1.0 s, one request at a time, reason BACKEND.

    Nothing executes. So one request a second is worked off, and what comes faster waits: with eight
    at once the last one is answered after eight seconds. A client that gives up cancels nothing:
    its request is worked off all the same.
    """
    test = bench.made("killed")
    (stub,) = bench.stubs("killed")
    os.kill(stub, signal.SIGKILL)
    before = bench.counters("killed")
    tested, took_s = bench.test(test)
    assert (tested.ok, tested.said) == (False, STUB_DEAD.format("killed"))
    assert 0.9 < took_s < 10.0
    assert bench.grown("killed", before) == {"BACKEND": 1.0}
    assert bench.says_it_is_well("killed")
    answers: list[tuple[int, str]] = []
    clients = [
        threading.Thread(target=lambda: answers.append(bench.infer("killed"))) for _ in range(3)
    ]
    for client in clients:
        client.start()
    until(lambda: bench.counters("killed")["pending"] == 2.0)
    for client in clients:
        client.join(DEADLINE_S)
    assert answers == [(500, STUB_DEAD.format("killed"))] * 3
    assert blame(*answers[0]) is Culprit.SERVER
    assert bench.grown("killed", before) == {"BACKEND": 4.0}


def test_a_stub_that_exits_in_execute_is_as_a_killed_one(bench: Bench) -> None:
    """``os._exit(3)``: the request that did it gets the same answer, a second later."""
    test = bench.made("exits")
    before = bench.counters("exits")
    assert bench.fall_sick("exits") == (500, STUB_DEAD.format("exits"))
    tested, took_s = bench.test(test)
    assert (tested.ok, tested.said) == (False, STUB_DEAD.format("exits"))
    assert 0.9 < took_s < 10.0
    assert bench.grown("exits", before) == {"BACKEND": 2.0}
    assert bench.says_it_is_well("exits")
    assert bench.stubs("exits") == []


def test_one_of_two_copies_that_is_dead_fails_every_second_request(bench: Bench) -> None:
    """Triton gives requests in turn, so a test request is sent once for each copy."""
    test = bench.made("half")
    before = bench.counters("half")
    assert bench.test(test)[0].ok
    assert bench.grown("half", before) == {"success": 2.0, "executions": 2.0}
    one, _ = bench.stubs("half")
    os.kill(one, signal.SIGKILL)
    statuses = [bench.infer("half")[0] for _ in range(4)]
    assert sorted(statuses) == [200, 200, 500, 500]
    tested, _ = bench.test(test)
    assert not tested.ok
    assert "Stub process 'half_0_" in tested.said


def test_an_execute_that_hangs_moves_no_counter(bench: Bench) -> None:
    """Not a single one; ``pending`` counts who waits behind it, and never falls again.

    Also after the clients have gone, and even after the model was loaded again, which makes it
    answer (1.8 s): the gauge has leaked. Each test request that is given up adds one.
    """
    test = bench.made("hangs")
    before = bench.counters("hangs")
    assert bench.fall_sick("hangs") == (0, "")
    tested, took_s = bench.test(test, timeout_s=1.0)
    assert (tested.ok, tested.said) == (False, "no answer for 1 s")
    assert 0.9 < took_s < 10.0
    assert bench.grown("hangs", before) == {"pending": 1.0}
    assert bench.says_it_is_well("hangs")
    assert ask(bench.endpoint.http_port, "POST", "/v2/repository/models/hangs/load")[0] == 200
    assert bench.infer("hangs")[0] == 200
    assert bench.counters("hangs")["pending"] == 1.0
    assert bench.test(test)[0].ok


def test_a_model_that_raises_fails_at_once(bench: Bench) -> None:
    """500 within some 10 ms, reason BACKEND, and it does execute.

    Zeros prove it, since it had taken them before.
    """
    test = bench.made("raises")
    assert bench.test(test)[0].ok
    before = bench.counters("raises")
    status, said = bench.fall_sick("raises")
    tested, took_s = bench.test(test)
    assert not tested.ok
    assert tested.said == said
    assert said == (
        "Failed to process the request(s) for model 'raises_0_0', message: RuntimeError: CUDA "
        "error: device-side assert triggered"
    )
    assert blame(status, said) is Culprit.MODEL
    assert took_s < 10.0
    assert bench.grown("raises", before) == {"BACKEND": 2.0, "executions": 2.0}
    assert bench.says_it_is_well("raises")


def test_a_model_that_answers_with_an_error_counts_as_a_success(bench: Bench) -> None:
    """``InferenceResponse(error=…)``: 500 for the client, ``request_success`` for the metrics.

    No counter tells it from a good answer. Only who reads answers knows: clients, load balancers, a
    test request.
    """
    test = bench.made("errors")
    assert bench.test(test)[0].ok
    before = bench.counters("errors")
    assert bench.fall_sick("errors") == (500, "the token has expired")
    tested, _ = bench.test(test)
    assert (tested.ok, tested.said) == (False, "the token has expired")
    assert bench.grown("errors", before) == {"success": 2.0, "executions": 2.0}
    assert bench.says_it_is_well("errors")


def test_a_wrong_answer_is_seen_where_the_right_one_is_given(bench: Bench) -> None:
    """Zeros do not see it; the user's request does."""
    tensor = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}
    right = {"outputs": [{"name": "OUT", "data": [1.0, 2.0]}]}
    written = {"model": "wrong", "inputs": [tensor], "expect": right}
    (test,), flaws = parse_file(json.dumps(written).encode())
    assert flaws == ()
    assert bench.test(test)[0].ok
    before = bench.counters("wrong")
    assert bench.fall_sick("wrong")[0] == 200
    tested, _ = bench.test(test)
    assert not tested.ok
    assert tested.said == "wrong answer: output 'OUT' is 2.0 at 0, not 1.0"
    assert bench.test(bench.made("wrong"))[0].ok
    assert bench.grown("wrong", before) == {"success": 3.0, "executions": 3.0}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 500, "failed to parse the request JSON buffer"),
        (b"{}", 500, "Unable to parse 'inputs'"),
        (
            b'{"inputs": [{"name": "IN", "datatype": "FP32", "data": [1]}]}',
            500,
            "Unable to parse 'shape'",
        ),
        (b'{"inputs": [], "parameters": 3}', 500, "failed to get request params"),
        (b'{"inputs": []}', 400, "expected 1 inputs but got 0"),
    ],
)
def test_what_a_caller_gets_wrong_is_the_callers_fault(
    bench: Bench, body: bytes, status: int, said: str
) -> None:
    """Also where Triton answers 500; no counter of the model moves."""
    before = bench.counters("well")
    answer = ask(bench.endpoint.http_port, "POST", "/v2/models/well/infer", body)
    line = error_line(answer[2])
    assert answer[0] == status
    assert said in line
    assert blame(status, line) is Culprit.CALLER
    assert bench.grown("well", before) == {}
