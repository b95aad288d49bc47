"""The client, against a real server."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from typing import Self

import attrs
import httpx
import pytest
from fake_master import EPOCH, TOKEN, FakeAuthorizer, FakeMaster, event, instance, snapshot

from tarn.clock import SystemClock
from tarn.domain import Acknowledge, Adapt, Applied, Demand, Drain, PauseScaling, Scale, Verdict
from tarn.errors import (
    ConflictError,
    NotAuthorizedError,
    NotFoundError,
    ProviderError,
    RefusedError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import Master, MasterApi, Message, ViewFollower
from tarn.follow.answers import good_answer
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.server import HttpServer


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    with FakeMaster() as running:
        yield running


@pytest.fixture
def api(master: FakeMaster) -> Iterator[MasterApi]:
    with MasterApi(master.url, TOKEN.decode()) as client:
        yield client


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_reads_are_what_the_master_knows(api: MasterApi, master: FakeMaster) -> None:
    """Status, instances, events and decisions."""
    master.publish(events=(event("up"),))
    assert api.status()["name"] == "llama"
    assert [i["id"] for i in api.instances()["instances"]] == ["llama-0001", "llama-0002"]
    assert api.decisions() == []
    assert api.get("/health") == {"status": "OK", "faults": []}


def test_verbs_become_commands(api: MasterApi, master: FakeMaster) -> None:
    """Each with the arguments that were given."""
    applied = Applied("lb1", EPOCH, 4, 1764201700.0, "", (("llama-0001", 2),))
    api.scale(3)
    api.scale(None)
    api.adapt(min=2)
    api.pause(90.0, "load test")
    api.drain("llama-0002")
    api.acknowledge(applied, 9.0)
    api.demand("lb1", 2)
    assert master.commands == [
        Scale(3),
        Scale(None),
        Adapt(2, None),
        PauseScaling(90.0, "load test"),
        Drain("llama-0002"),
        Acknowledge(applied, 9.0),
        Demand("lb1", 2),
    ]
    assert set(api.resume()) == set(api.down()) == {"spec_revision", "message"}


def test_refusals_and_conflicts_are_our_own_errors(api: MasterApi, master: FakeMaster) -> None:
    """Class, code and attributes survive the wire."""
    with pytest.raises(RefusedError, match=r"above replicas\.max = 8"):
        api.scale(9)
    with pytest.raises(ConflictError) as conflict:
        api.scale(3, if_match=1)
    assert conflict.value.spec_revision == 7
    with pytest.raises(NotFoundError, match="no instance 'nobody'"):
        api.drain("nobody")
    with pytest.raises(NotFoundError):
        api.get("/api/v1/nothing")
    assert api.scale(3, if_match=7)["spec_revision"] == 8


def test_a_wrong_token_is_not_authorized_and_shown_nowhere(master: FakeMaster) -> None:
    """Neither in the error, its causes, nor a repr."""
    with MasterApi(master.url, "wrong-secret") as stranger:
        with pytest.raises(NotAuthorizedError, match="X-TARN-Token") as caught:
            stranger.status()
        with pytest.raises(NotAuthorizedError):
            next(stranger.stream())
        shown = [repr(stranger), str(caught.value), repr(caught.value.__cause__)]
        shown.append(repr(stranger._client.headers))
    assert "wrong-secret" not in "".join(shown)


def test_a_no_of_the_authorizer_says_why() -> None:
    """403 is the same class, with the verdict's reason."""
    no = DirectAuthorizer(FakeAuthorizer(Verdict(allowed=False, reason="policy 7")))
    with (
        FakeMaster(api_token=None, gate=no) as master,
        MasterApi(master.url, None) as api,
        pytest.raises(NotAuthorizedError, match=r"anonymous may not admin.*policy 7"),
    ):
        api.down()


@pytest.mark.parametrize(("offers", "takes"), [("Negotiate", True), ("Basic", False), ("", False)])
def test_a_no_says_whether_a_ticket_would_be_taken(offers: str, takes: bool) -> None:
    """By the header, in whatever words the master says so."""
    headers = {"WWW-Authenticate": offers} if offers else {}
    answer = httpx.Response(401, headers=headers, json={"error": {"principal": "anonymous"}})
    with pytest.raises(NotAuthorizedError) as caught:
        good_answer(answer, "http://m")
    assert caught.value.negotiates is takes


def test_a_proxy_variable_is_never_used(
    master: FakeMaster, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback and masters are reached directly, whatever the site's proxy is."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, nobody)
    with MasterApi(master.url, TOKEN.decode()) as api:
        assert api.status()["name"] == "llama"


def test_nobody_there_is_unreachable(nobody: str) -> None:
    """The address is named."""
    with MasterApi(nobody, None) as api, pytest.raises(UnreachableError, match=nobody):
        api.status()


def test_a_url_that_is_none_is_unreachable() -> None:
    """A damaged ref.json is one clear line."""
    with MasterApi("http://[broken", None) as api, pytest.raises(UnreachableError):
        api.status()


def test_who_accepts_and_never_answers_is_timed_out() -> None:
    """Within the time limit that was given."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with MasterApi(url, None, timeout_s=0.1) as api, pytest.raises(TimedOutError):
            api.status()


def test_a_silent_control_thread_is_timed_out_too(api: MasterApi, master: FakeMaster) -> None:
    """The master's 503 keeps its code; an inbox that is full is another error."""
    master.app._api._answer_within_s = 0.01
    master.silent = True
    with pytest.raises(TimedOutError, match="may still carry out the command"):
        api.resume()
    while not master.inbox.ask(object()).done():  # type: ignore[arg-type]
        pass
    with pytest.raises(ProviderError) as full:
        api.resume()
    assert full.value.retry_after_s == 1.0
    master.inbox.drain()


def test_an_answer_that_is_no_masters_is_unreachable() -> None:
    """Another program took the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            peer, _ = other.accept()
            with peer:
                peer.recv(10_000)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        with (
            MasterApi(url, None) as api,
            pytest.raises(UnreachableError, match="not as a master does"),
        ):
            api.status()
        thread.join(timeout=5)


def test_a_stream_tells_what_is_kept_and_then_what_comes(
    api: MasterApi, master: FakeMaster
) -> None:
    """In order, without a gap between the two."""
    master.publish(events=(event("a"),))
    stream = api.stream()
    first = next(stream)
    assert (first.event, first.data["message"]) == ("event", "a")
    master.publish(events=(event("a"), event("b")))
    assert next(stream).data["message"] == "b"
    stream.close()  # type: ignore[attr-defined]


def test_a_stream_goes_on_after_the_master_was_away() -> None:
    """Same epoch, same port: only what was missed; another epoch: reset and the whole."""
    port = _free_port()
    stop = threading.Event()
    first = FakeMaster(snapshot(instance(1), events=(event("a"),)))
    first.server.close()
    first.server = HttpServer(port=port)
    with first, MasterApi(f"http://127.0.0.1:{port}", TOKEN.decode()) as api:
        stream = api.stream(stop=stop)
        assert next(stream).data["message"] == "a"
        first.server.close()
        later = snapshot(
            instance(1), epoch=attrs.evolve(EPOCH, attempt=2), events=(event("a"), event("b"))
        )
        second = FakeMaster(later)
        second.server.close()
        second.server = HttpServer(port=port)
        with second:
            told = [next(stream) for _ in range(3)]
            stop.set()
            assert list(stream) == []
    assert [m.event for m in told] == ["reset", "event", "event"]
    assert [m.data.get("message") for m in told] == [None, "a", "b"]


def test_a_broken_connection_is_resumed_from_the_last_id(
    api: MasterApi, master: FakeMaster
) -> None:
    """The server forgets nobody who was away for a moment."""
    master.publish(events=(event("a"), event("b")))
    resumed = api.stream(last_id=_id(master, 1))
    assert next(resumed).data["message"] == "b"
    resumed.close()  # type: ignore[attr-defined]


def test_stop_ends_a_quiet_stream_soon(api: MasterApi) -> None:
    """No need to wait for the next sign of life."""
    stop = threading.Event()
    stream = api.stream("stream", stop=stop)
    assert [next(stream).event, next(stream).event] == ["instances", "status"]
    threading.Timer(0.05, stop.set).start()
    start_s = time.monotonic()
    assert list(stream) == []
    assert time.monotonic() - start_s < 6.0


def test_a_stream_gives_up_when_nobody_comes_back(nobody: str) -> None:
    """After the time that was given, with the error of the last attempt."""
    with MasterApi(nobody, None) as api, pytest.raises(UnreachableError):
        list(api.stream(give_up_s=0.2))


def test_a_master_says_whose_it_is(master: FakeMaster) -> None:
    """A port may have been given to somebody else meanwhile."""
    with MasterApi(master.url, TOKEN.decode()) as api:
        assert api.cluster() == "llama"


def test_every_error_of_the_client_is_one_of_ours(nobody: str) -> None:
    """Callers catch ``TarnError`` and need to know no HTTP library."""
    with MasterApi(nobody, None) as api:
        for call in (api.status, api.events, api.down, lambda: api.get("/x")):
            with pytest.raises(TarnError):
                call()


def _id(master: FakeMaster, number: int) -> str:
    return f"{EPOCH}.{master.board.current.view.revision}.{number}"


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_a_message_says_where_to_go_on(api: MasterApi, master: FakeMaster) -> None:
    """Ids are ``<epoch>.<revision>.<n>``."""
    master.publish(events=(event("a"),))
    stream = api.stream()
    message: Message = next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert message.id == f"{EPOCH}.3.1"


def test_a_stream_that_ends_without_a_message_is_no_stream() -> None:
    """A server that answers 200 and closes at once is given up, as one that does not answer."""
    with Empty() as empty, MasterApi(empty.url, None) as api:
        with pytest.raises(UnreachableError, match="ended without a message"):
            next(api.stream("stream", give_up_s=0.0))
        following = ViewFollower(
            Master(empty.url), lambda _view: None, SystemClock(), poll_every_s=0.01
        )
        following.start()
        try:
            assert empty.polled.wait(10)
        finally:
            following.close()


class Empty:
    """Answers every stream with 200 and nothing, and says when it is asked for the view."""

    def __init__(self) -> None:
        self.polled = polled = threading.Event()

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/api/v1/instances":
                    polled.set()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
