"""The fake Triton itself: what tests and runtimes may rely on."""

import http.client
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarn.testing.fake_fleet import FakeFleet
from tarn.testing.fake_triton import FakeModel, FakeTriton, options
from tarn.triton.control import parse_index
from tarn.triton.metrics import parse

DEADLINE_S = 15.0
ASK = {"id": "7", "inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2.5]}]}


def call(
    port: int, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, bytes, str | None]:
    """Return (status, body, length of the JSON part)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read(), response.headers["Inference-Header-Content-Length"]
    finally:
        connection.close()


def wait_until(holds: Callable[[], bool]) -> None:
    end_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not holds():
        assert time.monotonic() < end_s
        pause.wait(0.005)


def free_ports() -> tuple[int, int, int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
        socket.create_server(("127.0.0.1", 0)) as three,
    ):
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


@contextmanager
def program(
    repository: Path, *more: str, env: dict[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", tuple[int, int, int]]]:
    """Run the fake as a program; it is dead afterwards."""
    ports = free_ports()
    argv = [sys.executable, "-m", "tarn.testing.fake_triton", "--model-repository", str(repository)]
    argv += ["--http-address=127.0.0.1", "--http-port", str(ports[0]), "--grpc-port", str(ports[1])]
    argv += [f"--metrics-port={ports[2]}", "--strict-readiness=false", "--backend-config", "a,b=c"]
    process = subprocess.Popen([*argv, *more], stderr=subprocess.PIPE, text=True, env=env)
    with process:
        try:
            yield process, ports
        finally:
            if process.poll() is None:
                process.kill()


def wait_for_line(process: "subprocess.Popen[str]", text: str) -> list[str]:
    """Return the lines of stderr up to the one with *text*."""
    timer = threading.Timer(DEADLINE_S, process.kill)
    timer.start()
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if text in line:
            timer.cancel()
            return lines
    timer.cancel()
    raise AssertionError(f"no line with {text!r} in {lines}")


def repository(path: Path, **models: dict[str, object]) -> Path:
    for name, told in models.items():
        (path / name / "1").mkdir(parents=True)
        (path / name / "fake.json").write_text(json.dumps(told))
    return path


def test_echoes_json() -> None:
    """IN comes back as OUT, with the request's id."""
    with FakeTriton("m") as triton:
        path = "/v2/models/m/infer"
        status, body, length = call(
            triton.endpoint.http_port, "POST", path, json.dumps(ASK).encode()
        )
    assert (status, length) == (200, None)
    assert json.loads(body) == {
        "id": "7",
        "model_name": "m",
        "model_version": "1",
        "outputs": [{"name": "OUT", "datatype": "FP32", "shape": [2], "data": [1.0, 2.5]}],
    }


@pytest.mark.parametrize("binary_out", [True, False])
def test_echoes_binary_data_in_either_form(binary_out: bool) -> None:
    """Raw tensors behind the JSON part, in and out."""
    raw = struct.pack("<2f", 1.0, 2.5)
    text = struct.pack("<I", 2) + b"hi"
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "INPUT0",
                    "shape": [2],
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": 8},
                },
                {
                    "name": "TEXT",
                    "shape": [1],
                    "datatype": "BYTES",
                    "parameters": {"binary_data_size": 6},
                },
            ],
            "parameters": {"binary_data_output": binary_out},
        }
    ).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    with FakeTriton("m") as triton:
        status, body, length = call(
            triton.endpoint.http_port, "POST", "/v2/models/m/infer", head + raw + text, headers
        )
    assert status == 200
    if binary_out:
        assert length is not None
        answer, tail = json.loads(body[: int(length)]), body[int(length) :]
        assert tail == raw + text
        assert [o["parameters"]["binary_data_size"] for o in answer["outputs"]] == [8, 6]
    else:
        answer = json.loads(body)
        assert [o["data"] for o in answer["outputs"]] == [[1.0, 2.5], ["hi"]]
    assert [o["name"] for o in answer["outputs"]] == ["OUTPUT0", "TEXT"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"x", 500), (b"{}", 500), (b"[]", 500), (b'{"inputs": 1}', 500), (b'{"inputs": [{}]}', 400)],
)
def test_a_request_that_cannot_be_meant_is_refused(body: bytes, expected: int) -> None:
    """With Triton's status codes, and counted as a failure."""
    with FakeTriton("m") as triton:
        status, answer, _ = call(triton.endpoint.http_port, "POST", "/v2/models/m/infer", body)
        assert status == expected
        assert json.loads(answer)["error"]
        assert triton.model("m").failures["OTHER"] == 1


def test_counters_move_when_a_request_ends_and_pending_counts_what_waits() -> None:
    """Of three requests to one model instance two are pending; what executes shows nowhere."""
    with FakeTriton(FakeModel("m", latency_s=0.8)) as triton:
        port, metrics_port = triton.endpoint.http_port, triton.endpoint.metrics_port
        body = json.dumps(ASK).encode()
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(call, port, "POST", "/v2/models/m/infer", body) for _ in range(3)]
            wait_until(lambda: triton.executing == 3)
            during = parse(call(metrics_port, "GET", "/metrics")[1]).signals()
            assert [c.result()[0] for c in calls] == [200, 200, 200]
        after = parse(call(metrics_port, "GET", "/metrics")[1]).signals()
    assert (value(during["pending"]), value(during["requests_total"])) == (2, 0)
    assert (value(after["pending"]), value(after["requests_total"])) == (0, 3)
    assert value(after["request_us_total"]) >= 3 * 800_000
    assert value(after["queue_us_total"]) >= 800_000 + 2 * 400_000


def value(sample: object) -> float:
    return float(getattr(sample, "value"))  # noqa: B009 (an Unknown must fail here)


def test_old_versions_have_no_pending_gauge_and_gpus_are_programmed() -> None:
    """2.37 is 23.08."""
    with FakeTriton(version="2.37.0") as triton:
        triton.state.gpus["GPU-1"] = (0.5, 10, 100)
        text = call(triton.endpoint.metrics_port, "GET", "/metrics")[1]
    assert b"pending" not in text
    assert value(parse(text).signals()["gpu_utilization"]) == 0.5


def test_a_broken_model_is_unavailable_with_its_reason() -> None:
    """The good one beside it is READY."""
    with FakeTriton("good", FakeModel("bad", error="Internal: no weights")) as triton:
        port = triton.endpoint.http_port
        good, bad = sorted(parse_index(call(port, "POST", "/v2/repository/index")[1]), reverse=True)
        assert (good.state, bad.state, bad.reason) == (
            "READY",
            "UNAVAILABLE",
            "Internal: no weights",
        )
        assert call(port, "GET", "/v2/models/good/ready")[0] == 200
        assert call(port, "GET", "/v2/models/bad/ready")[0] == 400


def test_load_and_unload_change_the_index() -> None:
    """Unload lets what executes end first."""
    with FakeTriton("m") as triton:
        port = triton.endpoint.http_port
        assert call(port, "POST", "/v2/repository/models/m/unload")[0] == 200
        wait_until(lambda: triton.model("m").state == "UNAVAILABLE")
        assert triton.model("m").reason == "unloaded"
        assert call(port, "POST", "/v2/models/m/infer", json.dumps(ASK).encode())[0] == 404
        assert call(port, "POST", "/v2/repository/models/m/load")[0] == 200
        assert call(port, "POST", "/v2/models/m/infer", json.dumps(ASK).encode())[0] == 200


def test_a_crashed_fake_can_come_back_on_its_ports() -> None:
    """As a restarted server does."""
    with FakeTriton() as first:
        endpoint = first.endpoint
        first.crash()
        with pytest.raises(ConnectionRefusedError):
            call(endpoint.http_port, "GET", "/v2")
    again = FakeTriton(http_port=endpoint.http_port, metrics_port=endpoint.metrics_port)
    with again:
        assert call(endpoint.http_port, "GET", "/v2")[0] == 200


def test_a_fleet_serves_and_hangs_by_number() -> None:
    """In its own process; the others answer on."""
    with FakeFleet(3) as fleet:
        fleet.hang([1])
        fleet.crash([2])
        ports = [endpoint.http_port for endpoint in fleet.endpoints]
        assert call(ports[0], "GET", "/v2/health/live")[0] == 200
        with pytest.raises(ConnectionRefusedError):
            call(ports[2], "GET", "/v2/health/live")
        with socket.create_connection(("127.0.0.1", ports[1])) as stuck:
            stuck.settimeout(0.1)
            stuck.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            with pytest.raises(TimeoutError):
                stuck.recv(1)
            fleet.hang([])
            stuck.settimeout(DEADLINE_S)
            assert stuck.recv(100).startswith(b"HTTP/1.1 200")


def test_the_program_understands_options_as_tritonserver_does() -> None:
    """Both forms, repeated, and flags without a value."""
    found = options(["--a", "1", "--a=2", "--flag", "--b=x=y", "stray"])
    assert found == {"a": ["1", "2"], "flag": ["true"], "b": ["x=y"]}


def test_the_program_serves_a_repository_and_ends_clean_on_sigterm(tmp_path: Path) -> None:
    """Exit code 0 when nothing is open; models come from the directory."""
    with program(repository(tmp_path, a={}, b={})) as (process, ports):
        lines = wait_for_line(process, "Started Metrics Service")
        assert any("successfully loaded 'a'" in line for line in lines)
        models = parse_index(call(ports[0], "POST", "/v2/repository/index")[1])
        assert [(m.name, m.state) for m in models] == [("a", "READY"), ("b", "READY")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0


def test_the_program_ends_with_1_when_a_connection_stays_open(tmp_path: Path) -> None:
    """As seen on Triton 2.51: an idle HTTP connection holds the exit until its time-out."""
    with program(repository(tmp_path, a={}), "--exit-timeout-secs", "0.2") as (process, ports):
        wait_for_line(process, "Started Metrics Service")
        with socket.create_connection(("127.0.0.1", ports[0])) as held:
            held.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            held.recv(1000)
            process.send_signal(signal.SIGTERM)
            wait_for_line(process, "Exit timeout expired")
            assert process.wait(DEADLINE_S) == 1


def test_the_program_finishes_what_executes_after_sigterm(tmp_path: Path) -> None:
    """Requests in work are answered; new connections are not."""
    models = repository(tmp_path, a={"latency_s": 0.5})
    body = json.dumps(ASK).encode()
    head = f"POST /v2/models/a/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    question = f"{head}Connection: close\r\n\r\n".encode() + body
    with program(models) as (process, ports):
        wait_for_line(process, "Started Metrics Service")
        with socket.create_connection(("127.0.0.1", ports[0]), timeout=DEADLINE_S) as slow:
            slow.sendall(question)
            call(ports[0], "GET", "/v2")  # came later, so the slow one is in work
            process.send_signal(signal.SIGTERM)
            wait_for_line(process, "Waiting for in-flight requests")
            with pytest.raises(ConnectionError):
                call(ports[0], "GET", "/v2/health/live")
            assert slow.recv(1000).startswith(b"HTTP/1.1 200")
        assert process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("by_file", [True, False])
def test_the_program_crashes_at_start_as_told(tmp_path: Path, by_file: bool) -> None:
    """With an error line in Triton's form, before it listens."""
    told: dict[str, object] = {"crash": "out of GPU memory"} if by_file else {}
    env = (
        None
        if by_file
        else {"FAKE_TRITON_CRASH": "out of GPU memory", "FAKE_TRITON_EXIT_CODE": "9"}
    )
    with program(repository(tmp_path, a=told), env=env) as (process, _):
        line = wait_for_line(process, "out of GPU memory")[-1]
        assert process.wait(DEADLINE_S) == (1 if by_file else 9)
    assert line.startswith("E")
    assert "error: creating server: Internal - out of GPU memory" in line


@pytest.mark.parametrize(("flag", "serves"), [("true", False), ("false", True)])
def test_a_broken_model_ends_the_program_unless_exit_on_error_is_off(
    tmp_path: Path, flag: str, serves: bool
) -> None:
    """Triton's default is strict."""
    models = repository(tmp_path, good={}, bad={"error": "Internal: no weights"})
    with program(models, f"--exit-on-error={flag}") as (process, _):
        text = "Started Metrics Service" if serves else "failed to load all models"
        lines = wait_for_line(process, text)
        assert any("failed to load 'bad' version 1: Internal: no weights" in line for line in lines)
        if not serves:
            assert process.wait(DEADLINE_S) == 1


def test_the_program_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    """Exit code 1 and a line that says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with program(repository(tmp_path, a={}), "--http-port", port) as (process, _):
            wait_for_line(process, "already in use")
            assert process.wait(DEADLINE_S) == 1


def test_the_program_loads_only_what_explicit_mode_names(tmp_path: Path) -> None:
    """``--load-model`` may be repeated."""
    models = repository(tmp_path, a={}, b={}, c={})
    more = ("--model-control-mode=explicit", "--load-model=a", "--load-model", "c")
    with program(models, *more) as (process, ports):
        wait_for_line(process, "Started Metrics Service")
        index = parse_index(call(ports[0], "POST", "/v2/repository/index")[1])
        assert [m.name for m in index] == ["a", "c"]


def test_the_program_imports_nothing_heavy() -> None:
    """It starts fast and stays small: no attrs, no httpx, no asyncio server but its own."""
    code = (
        "import sys, tarn.testing.fake_triton, tarn.testing.fake_triton;"
        "print([m for m in ('attr', 'httpx', 'numpy', 'yaml') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
