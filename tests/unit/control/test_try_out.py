"""Test requests on real sockets: what is sent, when, and what is made of the answers."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Sequence

import attrs
import pytest
from test_scrape import Watcher, watching

from tarn.control import port_watcher, warmup
from tarn.control.scrape import ProbeTarget, Scraper, SentRequests, Started, scrape_targets
from tarn.control.warmup import RequestResult, try_out
from tarn.domain import Endpoint, Instance, InstanceState, Launch, Reading, spec
from tarn.testing.fake_triton import FakeTriton
from tarn.triton.test_files import parse
from tarn.triton.test_requests import FILE, MADE, ExpectedAnswer, TestRequest
from tarn.triton.test_sources import KnownTests, MadeFrom

HANG = None
STUB = (500, b'{"error":"Stub process \'m_0_0\' is not healthy."}')
RAISED = (500, b'{"error":"Failed to process the request(s) for model"}')
FULL = (503, b'{"error":"Exceeds maximum queue size"}')
WRONG = (400, b'{"error":"unexpected shape"}')
GOOD = (200, b'{"outputs":[]}')
Answers = Sequence[tuple[int, bytes] | None]


def ask(
    answers: Answers, test: TestRequest, known: KnownTests | None = None
) -> tuple[RequestResult | None, list[bytes]]:
    """Return what came of *test* at a server that gives *answers*, and what it was sent."""
    waiting, heard = list(answers), list[bytes]()
    ended: list[asyncio.Event] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(end := asyncio.Event())
        with contextlib.suppress(OSError, EOFError):  # its time ended while it was being sent
            await say(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        end.set()

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        heard.append(head + await reader.readexactly(length))
        answer = waiting.pop(0)
        if answer is not None:
            status, body = answer
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
            writer.write(body)
        await reader.read()  # until the other side closes

    async def run() -> RequestResult | None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            at = Endpoint("127.0.0.1", port, 1, 1)
            found = await try_out(at, test, known or KnownTests(), again_s=0.01)
            server.close()
            for _ in range(5):  # what was connected just then begins
                await asyncio.sleep(0)
            for end in ended:
                await end.wait()
            return found

    return asyncio.run(run()), heard


def written(**more: object) -> TestRequest:
    return attrs.evolve(TestRequest("m", b'{"inputs":[]}', timeout_s=5.0), **more)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([GOOD], RequestResult(ok=True)),
        ([STUB], RequestResult(ok=False, said="Stub process 'm_0_0' is not healthy.")),
        ([RAISED], RequestResult(ok=False, said="Failed to process the request(s) for model")),
        ([FULL, FULL, GOOD], RequestResult(ok=True)),
        ([FULL, STUB], RequestResult(ok=False, said="Stub process 'm_0_0' is not healthy.")),
        ([(200, b"x" * (warmup.LONGEST_ANSWER + 1))], RequestResult(ok=True)),
    ],
)
def test_what_is_answered(answers: Answers, found: RequestResult) -> None:
    """Decides whether the instance is well, and is told by Triton's own line where it is not."""
    assert ask(answers, written())[0] == found


def test_silence_ends_with_the_time_that_was_given() -> None:
    began_s = time.monotonic()
    assert ask([HANG], written(timeout_s=0.3))[0] == RequestResult(
        ok=False, said="no answer for 0.3 s"
    )
    assert time.monotonic() - began_s < 4.0


def test_a_queue_that_stays_full_fails_with_what_triton_said() -> None:
    said = ask([FULL] * 1000, written(timeout_s=0.3))[0]
    assert said == RequestResult(ok=False, said="Exceeds maximum queue size")


def test_each_copy_is_tried_and_each_must_answer() -> None:
    """Triton gives requests in turn: of two copies with one dead each second one fails."""
    assert ask([GOOD, STUB], written(copies=2))[0] == RequestResult(
        ok=False, said="Stub process 'm_0_0' is not healthy."
    )
    found, heard = ask([GOOD, GOOD, GOOD], written(copies=3))
    assert found == RequestResult(ok=True)
    assert len(heard) == 3
    assert ask([GOOD, HANG], written(copies=2, timeout_s=0.3))[0] == RequestResult(
        ok=False, said="no answer for 0.3 s"
    )


def test_a_request_that_is_refused_says_nothing_and_is_not_used_again() -> None:
    test, known = written(), KnownTests([written()])
    assert ask([WRONG], test, known)[0] is None
    assert known.is_unfit(test)
    assert known.test_for("m") is None


def test_an_answer_too_long_to_be_compared_says_nothing() -> None:
    expect = parse(b'{"model":"m","inputs":[],"expect":{"outputs":[{"name":"O","data":[]}]}}')
    test, known = written(expect=expect[0][0].expect), KnownTests()
    assert isinstance(test.expect, ExpectedAnswer)
    assert ask([(200, b"x" * (warmup.LONGEST_ANSWER + 1))], test, known)[0] is None
    assert known.is_unfit(test)


def zeros(timeout_s: float = 5.0) -> TestRequest:
    made = MadeFrom("m").request()
    assert made is not None
    return attrs.evolve(made, timeout_s=timeout_s)


def test_a_model_that_refuses_zeros_everywhere_is_not_taken_for_sick() -> None:
    """What it says is told, and blames nobody."""
    known = KnownTests()
    said = "Failed to process the request(s) for model"
    assert ask([RAISED], zeros(), known)[0] == RequestResult(ok=False, said=said, proven=False)
    assert not known.is_unfit(zeros())


def test_a_model_that_takes_zeros_elsewhere_is_sick_where_it_refuses_them() -> None:
    known = KnownTests()
    assert ask([GOOD], zeros(), known)[0] == RequestResult(ok=True)
    assert ask([RAISED], zeros(), known)[0] == RequestResult(
        ok=False, said="Failed to process the request(s) for model"
    )


def test_a_dead_stub_needs_no_proof() -> None:
    assert ask([STUB], zeros())[0] == RequestResult(
        ok=False, said="Stub process 'm_0_0' is not healthy."
    )


def test_the_key_of_the_inference_api_and_the_length_of_the_json_travel_with_it() -> None:
    _, heard = ask([GOOD], zeros())
    assert b"Inference-Header-Content-Length: " in heard[0]
    assert b"Content-Type: application/octet-stream\r\n" in heard[0]


def test_nothing_that_listens_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    found = asyncio.run(try_out(Endpoint("127.0.0.1", port, 1, 1), written(), KnownTests()))
    assert found == RequestResult(ok=False, said=f"connection refused by 127.0.0.1:{port}")


def test_what_the_master_lacks_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the request stays as good as it was."""

    async def none(*_given: object) -> port_watcher.ProbeFailure:
        return port_watcher.ProbeFailure("too many open files", own=True)

    monkeypatch.setattr(warmup, "ask_once", none)
    known = KnownTests([written()])
    assert asyncio.run(try_out(Endpoint("127.0.0.1", 1, 1, 1), written(), known)) is None
    assert not known.is_unfit(written())


# -- through the scraper ---------------------------------------------------------------------


def infers(triton: FakeTriton) -> int:
    return sum(path.endswith("/infer") for _, path, _ in triton.requests)


def body(number: int) -> TestRequest:
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [1.0]}
    return TestRequest("m", json.dumps({"inputs": [tensor]}).encode(), number=number)


def says(number: int) -> Callable[[Reading], bool]:
    def holds(reading: Reading) -> bool:
        return reading.tested is not None and reading.tested.number == number

    return holds


def test_it_is_sent_once_for_each_number_and_only_where_it_is_asked_for() -> None:
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        looks = triton.looks
        watcher.until(lambda _: triton.looks > looks + 6)
        assert infers(triton) == 0
        for number in (1, 2):
            watcher.woken.clear()
            watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=body(number))})
            said = watcher.until(says(number)).tested
            assert said is not None
            assert said.ok
            assert watcher.woken.wait(5.0)
        looks = triton.looks
        watcher.until(lambda _: triton.looks > looks + 6)
        assert infers(triton) == 2
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint)})
        looks = triton.looks
        assert watcher.until(lambda _: triton.looks > looks + 6).tested == said


def test_an_answer_tells_the_model_and_whether_all_of_the_time_had_passed() -> None:
    """A busy instance is late, too."""
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.model("m").latency_s = 5.0
        late = attrs.evolve(body(1), timeout_s=0.2)
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=late)})
        said = watcher.until(says(1)).tested
        assert said is not None
        assert (said.model, said.ok, said.late) == ("m", False, True)
        triton.model("m").latency_s = 0.0
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=body(2))})
        said = watcher.until(says(2)).tested
        assert said is not None
        assert (said.model, said.ok, said.late) == ("m", True, False)


def test_two_are_never_in_flight_and_the_newest_is_the_next() -> None:
    """The second is asked for while the first hangs; what was asked for between is not sent."""
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.model("m").latency_s = 0.4
        seen = 0
        for number in (1, 2, 3):
            watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=body(number))})
            watcher.until(lambda _: triton.executing == 1)
        while infers(triton) < 2:
            seen = max(seen, triton.executing)
        watcher.until(says(3))
        assert seen == 1
        assert infers(triton) == 2


def test_the_model_is_known_from_its_configuration_without_another_question() -> None:
    """What is read to tell ensembles makes the request, too; it is answered by the fake."""
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        scraper: Scraper = watcher.scraper
        watcher.until(lambda _: scraper.tests.test_for("m") is not None)
        tests = scraper.tests.tests_for("a", "m", 5)
        assert tests["a"].source == MADE
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=tests["a"])})
        said = watcher.until(says(5)).tested
        assert said is not None
        assert said.ok
        assert scraper.tests.is_proven(tests["a"])


def test_an_unfit_request_has_no_answer_and_the_model_is_asked_again_what_it_takes() -> None:
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        scraper: Scraper = watcher.scraper
        wrong = TestRequest("m", b"{", number=4)
        watcher.until(lambda _: scraper.tests.test_for("m") is not None)
        configs = sum(path.endswith("/config") for _, path, _ in triton.requests)
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=wrong)})
        watcher.until(lambda _: scraper.tests.is_unfit(wrong))
        watcher.until(
            lambda _: sum(p.endswith("/config") for _, p, _ in triton.requests) == configs + 1
        )
        assert watcher.until(lambda _: True).tested is None


def test_a_leaving_instance_is_not_tested() -> None:
    with FakeTriton("m") as triton, watching(a=ProbeTarget(triton.endpoint)) as watcher:
        triton.model("m").latency_s = 5.0
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=body(1))})
        watcher.until(lambda _: triton.executing == 1)
        watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, leaving=True, test=body(2))})
        watcher.until(lambda r: "is leaving" in str(r.live))
        watcher.until(lambda _: triton.http_connections == 0)
        assert infers(triton) == 1


# -- what it is aimed at ---------------------------------------------------------------------


def test_a_target_changes_with_its_test_and_the_others_stay_the_same_objects() -> None:
    launch = Launch(
        spec.ModelsSpec("/m"), spec.TritonSpec(), spec.InstanceSpec(), "/m", "hash", {}, None
    )
    endpoints = [Endpoint("127.0.0.1", port, 1, 1) for port in (1, 2)]
    both = [
        Instance(name, "hash", InstanceState.READY, endpoint=endpoint)
        for name, endpoint in zip("ab", endpoints, strict=True)
    ]
    started = {"": Started(launch)}
    before = scrape_targets(both, {}, started, SentRequests())
    after = scrape_targets(both, before, started, SentRequests(tests={"a": body(1)}))
    assert after["a"].test == body(1)
    assert after["a"].test is not None
    assert after["a"].test.source == FILE
    assert after["b"] is before["b"]
    assert (
        scrape_targets(both, after, started, SentRequests(tests={"a": body(1)}))["a"] is after["a"]
    )
    assert scrape_targets(both, after, started, SentRequests())["a"].test is None


def test_a_test_request_that_cannot_be_sent_is_an_error_of_ours() -> None:
    """Counted; nothing is said of the instance, which stays warm."""
    watcher = Watcher(0.05, 2.0)
    watcher.scraper.start()
    try:
        with FakeTriton("m") as triton:
            broken = TestRequest("m", b"", (("name", "line\nbreak"),))
            watcher.scraper.watch({"a": ProbeTarget(triton.endpoint, test=broken)})
            watcher.until(lambda _: watcher.scraper.crashes > 0)
            reading = watcher.until(lambda _: True)
            assert (reading.tested, reading.cold, reading.warm) == (None, "", True)
    finally:
        watcher.scraper.close()
