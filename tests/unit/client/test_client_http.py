"""The client for threads, over fake Tritons and servers that misbehave."""

import gzip
import inspect
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from certificates import Authority
from client_stage import Misbehaving, answer, asks, http_of, resets, says, tensor
from tritonclient.http import InferenceServerClient, InferenceServerClientPlugin
from tritonclient.utils import InferenceServerException

import tarn.client
from tarn.client import blocking
from tarn.client.affinity import RequestKey
from tarn.client.blocking import HttpClient
from tarn.client.http_connection import ClientConnection, NotHttpError
from tarn.client.requests import inference
from tarn.client.targets import parse
from tarn.errors import ConfigError, RefusedError, TarnError, TimedOutError, UnreachableError
from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.testing.wait import until


@pytest.fixture
def three():
    with FakeTriton("echo") as a, FakeTriton("echo") as b, FakeTriton("echo") as c:
        yield a, b, c


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return f"127.0.0.1:{sock.getsockname()[1]}"


def chunked(body):
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    first = b"5;x=y\r\n" + body[:5] + b"\r\n"
    second = f"{len(body) - 5:x}\r\n".encode() + body[5:] + b"\r\n"
    return head + first + second + b"0\r\nX-Trailer: 1\r\n\r\n"


def test_one_caller_spreads_its_calls_evenly(three):
    """300 calls in a row on three instances: a hundred each."""
    with tarn.client.http(http_of(three)) as client:
        for number in range(300):
            assert asks(client, number) == number
    assert [len(triton.requests) for triton in three] == [100, 100, 100]


def test_thirty_at_once_spread_over_three_idle_instances():
    """Ten each, give or take two."""
    models = [FakeModel("echo", latency_s=0.8, instances=30) for _ in range(3)]
    with FakeTriton(models[0]) as a, FakeTriton(models[1]) as b, FakeTriton(models[2]) as c:
        fleet = (a, b, c)
        with tarn.client.http(http_of(fleet)) as client, ThreadPoolExecutor(30) as pool:
            done = list(pool.map(lambda n: asks(client, n), range(30)))
        assert done == list(range(30))
        assert all(8 <= len(triton.requests) <= 12 for triton in fleet)


def test_a_slow_instance_gets_less(three):
    """In flight is what counts: who is slow has more of it."""
    three[0].model("echo").latency_s = 0.03
    with tarn.client.http(http_of(three)) as client, ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: asks(client, n), range(200)))
    counts = [len(triton.requests) for triton in three]
    assert counts[0] < min(counts[1:]) / 2


def test_thirty_two_threads_share_one_client_without_an_error(three):
    """Each gets the answer to its own question; nothing runs after `close`."""
    before = set(threading.enumerate())
    with tarn.client.http(http_of(three)) as client, ThreadPoolExecutor(32) as pool:
        got = list(pool.map(lambda n: asks(client, n), range(1600)))
    assert got == list(range(1600))
    assert sum(len(triton.requests) for triton in three) == 1600
    assert set(threading.enumerate()) <= before


def test_a_refused_connection_ejects_the_instance_after_one_try(three):
    """Nothing is lost, and the dead one is not asked each time."""
    dead, *alive = three
    with tarn.client.http(http_of(three)) as client:
        dead.crash()
        for number in range(100):
            assert asks(client, number) == number
        failures = sorted(slot.failures for slot in client._fleet.slots)
    assert failures[:2] == [0, 0]
    assert 1 <= failures[2] < 10  # one, and one more after each back-off, were it slow
    assert sum(len(triton.requests) for triton in alive) == 100


def test_a_refused_connection_is_tried_elsewhere_even_without_retries(three):
    """Nothing was sent, so nothing can run twice."""
    addresses = [free_address(), *http_of(three[:1])]
    with tarn.client.http(addresses, retry_resets=False) as client:
        assert [asks(client, number) for number in range(10)] == list(range(10))


def test_a_connection_reset_before_the_answer_is_tried_elsewhere(three):
    """On by default; the one that reset is not asked again for the same request."""
    with (
        Misbehaving(resets) as bad,
        tarn.client.http([bad.address, *http_of(three[:1])]) as client,
    ):
        assert [asks(client, number) for number in range(10)] == list(range(10))
        assert len(bad.requests) == 2  # after the second it is left alone for a while
    assert len(three[0].requests) == 10


def test_without_retries_a_reset_says_that_it_may_have_run(three):
    """Whoever cannot bear an inference twice decides by himself."""
    with (
        Misbehaving(resets) as bad,
        tarn.client.http(bad.address, retry_resets=False) as client,
        pytest.raises(UnreachableError, match="may have been executed") as caught,
    ):
        asks(client, 1)
    assert caught.value.where == bad.address
    assert len(bad.requests) == 1


def test_an_answer_that_ends_in_its_middle_is_tried_elsewhere(three):
    """The caller saw nothing of it; a crash while a large answer is sent loses no call."""
    half = answer(1)[:-10]
    with (
        Misbehaving(says(half, then_close=True)) as bad,
        tarn.client.http([bad.address, *http_of(three[:1])]) as client,
    ):
        assert [asks(client, number) for number in range(4)] == list(range(4))
        assert len(bad.requests) == 2


def test_a_request_that_kills_whoever_takes_it_stops_after_three():
    """A query of death does not go through the whole fleet."""
    with Misbehaving(resets) as a, Misbehaving(resets) as b, Misbehaving(resets) as c:
        with (
            Misbehaving(resets) as d,
            tarn.client.http([one.address for one in (a, b, c, d)]) as client,
            pytest.raises(UnreachableError) as caught,
        ):
            asks(client, 1)
        assert sum(len(one.requests) for one in (a, b, c, d)) == 3
    assert str(caught.value).count("127.0.0.1") == 3


def test_a_stale_connection_is_noticed_before_it_is_used(three):
    """A server may end an idle connection at any time; that costs no call and no retry."""
    with tarn.client.http(three[0].endpoint.http, retry_resets=False) as client:
        for number in range(5):
            assert asks(client, number) == number
            three[0].drop_connections()


def test_an_instance_that_hangs_costs_its_time_limit_and_names_itself(three):
    """It may still execute the request, so that is not asked of another one."""
    three[0].hang()
    with (
        tarn.client.http(three[0].endpoint.http, answer_within_s=0.2) as client,
        pytest.raises(
            TimedOutError, match=r"no answer for 0\.2 s.*may still be executed"
        ) as caught,
    ):
        asks(client, 1)
    assert caught.value.where == three[0].endpoint.http
    three[0].thaw()


def test_what_hangs_is_avoided_by_the_others(three):
    """Requests without an answer are in flight, and so it looks busy."""
    three[0].hang()
    with (
        tarn.client.http(http_of(three), answer_within_s=30) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        waiting = [pool.submit(asks, client, n) for n in range(4)]
        until(lambda: sum(one.done() for one in waiting) >= 2, what="two answers")
        three[0].thaw()
        assert sorted(one.result(10) for one in waiting) == [0, 1, 2, 3]


def test_says_what_was_tried_when_nobody_takes_it():
    """Each instance with its reason, within the time to wait."""
    addresses = [free_address(), free_address()]
    with (
        tarn.client.http(addresses, wait_s=0.3) as client,
        pytest.raises(UnreachableError) as caught,
    ):
        asks(client, 1)
    assert all(address in str(caught.value) for address in addresses)
    assert "refused" in str(caught.value).lower()


def test_waits_for_an_instance_that_comes_back():
    """A single Triton that restarts costs patience, not a call."""
    first = FakeTriton("echo")
    with first, tarn.client.http(first.endpoint.http, wait_s=20) as client:
        assert asks(client, 1) == 1
        port = first.endpoint.http_port
        first.close()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(asks, client, 2)
            until(lambda: client._fleet.slots[0].failures > 0, what="a refused connection")
            with FakeTriton("echo", http_port=port):
                assert waiting.result(10) == 2


def test_without_patience_every_instance_is_still_asked_once(three):
    """wait_s=0 is for callers that have their own fallback."""
    addresses = [free_address(), free_address(), *http_of(three[:1])]
    with tarn.client.http(addresses, wait_s=0) as client:
        assert asks(client, 7) == 7


def test_an_answer_503_is_asked_of_one_other(three):
    """A Triton that stops, or whose queue is full, did not take the request."""
    busy = answer(0, "503 Service Unavailable")
    with (
        Misbehaving(says(busy)) as bad,
        tarn.client.http([bad.address, *http_of(three[:1])], retry_resets=False) as client,
    ):
        assert [asks(client, number) for number in range(6)] == list(range(6))
    error = b'HTTP/1.1 503 X\r\nContent-Length: 16\r\n\r\n{"error":"full"}'
    with Misbehaving(says(error)) as a, Misbehaving(says(error)) as b:
        with (
            Misbehaving(says(error)) as c,
            tarn.client.http([a.address, b.address, c.address]) as client,
            pytest.raises(InferenceServerException, match="full"),
        ):
            asks(client, 1)
        assert sum(len(one.requests) for one in (a, b, c)) == 2


def test_tritons_own_errors_come_as_tritonclient_raises_them(three):
    """Code that catches them goes on working; nothing is repeated."""
    with (
        tarn.client.http(http_of(three)) as client,
        pytest.raises(InferenceServerException, match="unknown model") as caught,
    ):
        client.infer("nobody", tensor(1))
    assert caught.value.status() == "404"
    assert sum(len(triton.requests) for triton in three) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_no_http_is_said_so(text):
    """Somebody else listens there."""
    with (
        Misbehaving(says(text)) as bad,
        tarn.client.http(bad.address) as client,
        pytest.raises(UnreachableError, match=r"sends|answers") as caught,
    ):
        asks(client, 1)
    assert caught.value.where == bad.address


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(5),
        answer(5).replace(b"HTTP/1.1", b"HTTP/1.0"),
        answer(5).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        chunked(answer(5).partition(b"\r\n\r\n")[2]),
    ],
    ids=["interim", "http-1.0", "close", "chunked"],
)
def test_every_framing_of_an_answer_is_understood(text):
    """What proxies between make of Triton's answers."""
    with Misbehaving(says(text)) as server, tarn.client.http(server.address) as client:
        assert [asks(client, number) for number in range(3)] == [5, 5, 5]


def test_an_answer_that_ends_with_its_connection_is_understood():
    """Neither a length nor chunks: HTTP/1.0's way."""
    text = answer(5).replace(b"Content-Length", b"X-Length")
    with (
        Misbehaving(says(text, then_close=True)) as server,
        tarn.client.http(server.address) as client,
    ):
        assert asks(client, 1) == 5


def test_large_tensors_travel_whole(three):
    """Eight MiB there and back."""
    values = np.arange(2 * 1024 * 1024, dtype=np.float32)
    inputs = tensor(0, values.size)
    inputs[0].set_data_from_numpy(values)
    with tarn.client.http(http_of(three)) as client:
        assert np.array_equal(client.infer("echo", inputs).as_numpy("OUT"), values)


def test_a_compressed_request_is_what_its_header_says():
    """As tritonclient does it."""
    with Misbehaving(says(answer(3))) as server, tarn.client.http(server.address) as client:
        assert asks(client, 3, request_compression_algorithm="gzip") == 3
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert gzip.decompress(body) == inference("echo", tensor(3)).body


def test_async_infer_gives_its_result_later(three):
    """The handle is like tritonclient's; without blocking it says that there is none yet."""
    three[0].model("echo").latency_s = 1.0
    before = set(threading.enumerate())
    with tarn.client.http(three[0].endpoint.http) as client:
        pending = client.async_infer("echo", tensor(4))
        with pytest.raises(TimedOutError):
            pending.get_result(block=False)
        assert pending.get_result(timeout=10).as_numpy("OUT")[0] == 4
        with pytest.raises(InferenceServerException):
            client.async_infer("nobody", tensor(4)).get_result()
    assert set(threading.enumerate()) <= before


def test_a_sequence_stays_where_it_began(three):
    """Its state is in one instance; another sequence may live elsewhere."""
    with tarn.client.http(http_of(three)) as client:
        for number in range(6):
            asks(
                client, number, sequence_id=7, sequence_start=number == 0, sequence_end=number == 5
            )
        assert sorted(len(triton.requests) for triton in three) == [0, 0, 6]
        assert client._router.home(RequestKey("echo", b"7")) is None


def test_a_sequence_is_never_repeated(three):
    """Neither when its instance is gone, nor after a reset: it says that it must begin again."""
    with tarn.client.http(http_of(three)) as client:
        asks(client, 1, sequence_id="s", sequence_start=True)
        (home,) = [triton for triton in three if triton.requests]
        home.crash()
        with pytest.raises(UnreachableError, match="that instance held the state of sequence 's'"):
            asks(client, 2, sequence_id="s")
    assert sum(len(triton.requests) for triton in three) == 1
    with (
        Misbehaving(resets) as bad,
        tarn.client.http(bad.address) as client,
        pytest.raises(UnreachableError, match="may have been executed"),
    ):
        asks(client, 1, sequence_id=1, sequence_start=True)
    assert len(bad.requests) == 1


def test_what_is_asked_of_a_server_has_its_meaning_for_a_fleet(three):
    """Any live one is enough; a model is ready when every instance has it; statistics add up."""
    with tarn.client.http(http_of(three)) as client:
        for number in range(30):
            asks(client, number)
        (model,) = client.get_inference_statistics("echo")["model_stats"]
        assert model["inference_stats"]["success"]["count"] == 30
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("echo")
        three[1].model("echo").state = "UNAVAILABLE"
        assert not client.is_model_ready("echo")
        three[1].model("echo").state = "READY"
        assert client.get_model_metadata("echo")["name"] == "echo"
        assert client.get_model_repository_index()[0]["name"] == "echo"
        assert client.get_server_metadata()["name"] == "triton"


def test_loading_is_asked_of_every_instance_and_names_who_failed(three):
    """The others load nevertheless."""
    three[2].state.models["new"] = FakeModel("new", error="no such file")
    with tarn.client.http(http_of(three)) as client:
        client.load_model("echo")
        with pytest.raises(RefusedError, match=r"[23] of 3") as caught:
            client.load_model("new")
        client.unload_model("echo")
    assert three[2].endpoint.http in str(caught.value)
    loads = Counter(path for triton in three for _, path, _ in triton.requests)
    assert loads["/v2/repository/models/echo/load"] == 3
    assert loads["/v2/repository/models/echo/unload"] == 3


def test_shared_memory_is_refused_with_the_way_out(three):
    """It would have to be registered with whoever gets the request."""
    with (
        tarn.client.http(http_of(three)) as client,
        pytest.raises(RefusedError, match="one client and one server"),
    ):
        client.register_system_shared_memory("a", "/a", 8)


def test_a_plugin_of_tritonclient_sees_every_request(three):
    """Its headers go to whoever is asked, and to everybody when all are asked."""
    seen = []

    class Plugin(InferenceServerClientPlugin):
        def __call__(self, request):
            request.headers["Authorization"] = "Bearer x"
            seen.append(request)

    with Misbehaving(says(answer(1))) as server, tarn.client.http(server.address) as client:
        client.register_plugin(Plugin())
        asks(client, 1)
        client.get_server_metadata()
        client.each(lambda one: one.is_server_live())
        assert len(server.requests) == len(seen) == 3
        assert all(b"\r\nAuthorization: Bearer x\r\n" in text for text in server.requests)


def test_a_closed_client_says_so(three):
    """Twice closed is closed; nothing opens again by itself."""
    client = tarn.client.http(http_of(three))
    asks(client, 1)
    client.close()
    client.close()
    with pytest.raises(RefusedError, match="closed"):
        asks(client, 1)
    assert until(lambda: sum(triton.http_connections for triton in three) == 0)


def test_a_forked_process_gets_one_clear_error(three):
    """Threads and connections do not survive a fork."""
    script = f"""
        import os, sys
        sys.path.insert(0, {str(sys.path[0])!r})
        import tarn.client
        client = tarn.client.http({three[0].endpoint.http!r})
        assert client.is_server_live()
        child = os.fork()
        if child == 0:
            try:
                client.get_server_metadata()
            except Exception as error:
                os.write(1, f"{{type(error).__name__}}: {{error}}".encode())
            client.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert client.get_server_metadata()
        client.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RefusedError: the client was made by process")
    assert "after the fork" in done.stdout


def test_has_every_method_of_tritonclient():
    """Code written for it finds what it knows, with the same parameters of `infer`."""
    for name, _ in inspect.getmembers(InferenceServerClient, callable):
        if not name.startswith("_"):
            assert callable(getattr(HttpClient, name))
    theirs = list(inspect.signature(InferenceServerClient.infer).parameters)[1:]
    assert list(inspect.signature(inference).parameters) == theirs


def told(text, *, within_s=5.0):
    """Return the answer that a server's *text* is, and whether its connection may be kept."""
    with (
        Misbehaving(says(text)) as server,
        ClientConnection(parse(server.address), 2, within_s) as line,
    ):
        got = line.ask(b"GET / HTTP/1.1\r\n\r\n", b"")
        return got.status_code, got.body, line.keeps


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_ends_with_its_head(status):
    """Nothing follows it, whatever its head lacks or says; the connection is kept."""
    for head in (b"", b"Content-Length: 9\r\n", b"Transfer-Encoding: chunked\r\n"):
        text = f"HTTP/1.1 {status} Nothing\r\n".encode() + head + b"\r\n"
        assert told(text) == (status, b"", True)


def test_a_large_chunk_costs_no_more_than_its_bytes():
    """What came is not copied with each part that comes: 64 MiB are a thousand parts."""
    body = b"x" * (64 * 1024 * 1024)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    text = head + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    began_s = time.process_time()  # of this process, which is what is measured
    assert told(text) == (200, body, True)
    assert time.process_time() - began_s < 3


def test_many_small_chunks_cost_no_more_than_their_bytes():
    """Also those that come together."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    began_s = time.process_time()
    got = told(head + b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n")
    assert got == (200, b"x" * 200_000, True)
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        *(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + size + b"\r\n"
            for size in (b"-5", b"0x5", b"1_0", b"", b"f" * 99)
        ),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"0" * 200_000,
    ],
    ids=lambda head: str(head[9:60]),
)
def test_a_number_that_is_none_is_no_http(head):
    """In whatever way somebody else's number is odd."""
    with pytest.raises(NotHttpError):
        told(head)


def closes(client):
    """Close *client* on a thread, which must come to its end."""
    thread = threading.Thread(target=client.close)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_close_waits_for_no_answer_for_long(monkeypatch):
    """What is in flight has some time, and is cut then; its result says what became of it."""
    monkeypatch.setattr(blocking, "CLOSE_WITHIN_S", 0.2)
    release = threading.Event()
    with Misbehaving(lambda _sock, _request: release.wait(30)) as server:
        client = tarn.client.http(server.address, wait_s=30)
        hanging = client.async_infer("echo", tensor(1))
        each = threading.Thread(target=fails, args=(client,))
        each.start()
        until(lambda: len(server.requests) == 2)
        closes(client)
        with pytest.raises((RefusedError, UnreachableError)):
            hanging.get_result()
        each.join(10)
        release.set()
    assert not each.is_alive()


def fails(client):
    with pytest.raises(TarnError):
        client.each(lambda one: one.is_server_live())


def test_a_close_wakes_who_waits_for_an_instance():
    """Nothing comes any more, however patient the client was."""
    client = tarn.client.http(free_address(), wait_s=60)
    waiting = client.async_infer("echo", tensor(1))
    until(lambda: client._fleet.slots[0].failures > 0)
    closes(client)
    with pytest.raises(RefusedError, match="closed"):
        waiting.get_result()


def test_what_is_in_flight_at_a_close_may_end(three):
    """A result that comes in time is a result."""
    three[0].model("echo").latency_s = 0.5
    with tarn.client.http(three[0].endpoint.http) as client:
        pending = client.async_infer("echo", tensor(4))
        until(lambda: client._fleet.slots[0].in_flight == 1)
    assert pending.get_result().as_numpy("OUT")[0] == 4


def test_addresses_with_https_are_known_by_the_ca_that_is_given(tmp_path):
    """As for a master; without any such address it would be of no use, and that is said."""
    authority = Authority(tmp_path)
    issued = authority.issue("triton")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert, issued.key)
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        ThreadPoolExecutor(1) as pool,
    ):
        served = pool.submit(lambda: serve_one(door, context))
        url = f"https://127.0.0.1:{door.getsockname()[1]}"
        with tarn.client.http([url], ca=authority.ca) as client:
            assert client.is_server_live()
        served.result(10)
    with pytest.raises(ConfigError, match="is not an https:// address"):
        tarn.client.http(["127.0.0.1:8000"], ca=authority.ca)


def serve_one(door, context):
    with context.wrap_socket(door.accept()[0], server_side=True) as one:
        one.recv(65536)
        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
