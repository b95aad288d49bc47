"""The rendered HAProxy that asks the master: who asks, what for, and what a broken master costs."""

import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from servers.guarded_haproxy import (
    GATE,
    TOKEN,
    Answer,
    AuthorizingMaster,
    GuardedHaproxy,
    RecordingTriton,
    guarded,
)
from servers.haproxy import HAPROXY
from servers.keyed_haproxy import sequence_body

from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.configuration import render

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
Stand = tuple[AuthorizingMaster, RecordingTriton, GuardedHaproxy]
PAUSE = threading.Event()


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with guarded(tmp_path_factory.mktemp("authz"), grace_s=0) as three:
        yield three


@pytest.fixture
def fresh(stand: Stand) -> Iterator[Stand]:
    master, triton, _ = stand
    master.asked.clear()
    master.tokens.clear()
    triton.seen.clear()
    yield stand
    master.mode, master.delay_s, master.rights = "well", 0.0, lambda _asked: True
    master.release.set()
    master.release.clear()


# -- what for

PATHS = [
    ("/v2/health/live", "GET", "open"),
    ("/v2", "GET", "metadata *"),
    ("/v2/models/stats", "GET", "list *"),
    ("/v2/repository/index", "POST", "list *"),
    ("/v2/models/a1", "GET", "metadata a1"),
    ("/v2/models/a2/ready", "GET", "metadata a2"),
    ("/v2/models/a3/versions/01/config", "GET", "metadata a3"),
    ("/v2/models/a4/versions/7", "GET", "metadata a4"),
    ("/v2/models/a5/stats", "GET", "metadata a5"),
    ("/v2/models/a6/infer", "POST", "infer a6"),
    ("/v2/models/a7/versions/1/generate", "POST", "infer a7"),
    ("/v2/models/-x_7.B/generate_stream", "POST", "infer -x_7.B"),
    *[
        (path, "POST", "no")
        for path in (
            "/",
            "/metrics",
            "/v2/",
            "/v3/models/a1",
            "/V2/models/a1",
            "/api/v1/status",
            "/authorize?model=a&action=infer",
            "/v2/logging",
            "/v2/trace/setting",
            "/v2/models/a1/trace/setting",
            "/v2/models/a1/nothing",
            "/v2/systemsharedmemory/status",
            "/v2/cudasharedmemory/region/x/register",
            "/v2/repository/models/a1/load",
            "/v2/repository/models/a1/unload",
            "/v2/repository/index/",
            "/v2/models",
            "/v2/models/",
            "/v2/models/a1/",
            "/v2/models/a1/versions",
            "/v2/models/a1/versions/x",
            "/v2/models/a1/versions/1infer",
            "/tarn/api/v1/status",
            "/v2/models/a1/versions/1/",
            "/v2/models/a1/versions/99999999999999999999",
            f"/v2/models/{'m' * 256}",
            "//v2/models/a1",
            "/v2//models/a1",
            "/v2/models/a1/./infer",
            "/v2/models/a1/../a9/infer",
            "/v2/models/../repository/models/a9/load",
            "/v2/models/.a1",
            "/v2/models/a%31",
            "/v2/models/a1%2finfer",
            "/v2/models/a1%00",
            "/v2/models/a1;x=1/infer",
            "/v2/models/a1\\infer",
            "/v2/models/a+1",
            "/v2/models/*",
            "/v2/models/a1#/../a9",
            "/v2/models/a\xe91",
            "/inference.GRPCInferenceService/ServerLive",
            "*",
        )
    ],
]


@pytest.mark.parametrize(("target", "method", "meant"), PATHS)
def test_a_path_is_read_in_one_way_only(fresh: Stand, target: str, method: str, meant: str) -> None:
    """Nothing is decoded; what is in nobody's right reaches neither master nor Triton."""
    master, triton, door = fresh
    answer = door.ask(target, method) if "list" not in meant else door.knox(target, method, method)
    if meant == "no":
        assert answer.status in {400, 403}, answer
        assert (master.asked, triton.seen) == ([], [])
        return
    assert answer.status == 200, answer
    assert triton.paths == [target]
    questions = [f"{action} {model}" for _, action, model in master.asked]
    assert questions == ([] if meant == "open" else [meant])


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get"])
def test_other_methods_are_nobodys(fresh: Stand, method: str) -> None:
    """Triton uses GET and POST; a method with another meaning is not passed on."""
    master, triton, door = fresh
    assert door.ask("/v2/models/method", method).status in {400, 403}
    assert (master.asked, triton.seen) == ([], [])


def test_a_whole_url_as_target_is_read_as_its_path(fresh: Stand) -> None:
    """The instance gets the path alone: what stood before it cannot mean anything there."""
    _, triton, door = fresh
    assert door.ask("http://lb/v2/models/whole?a=/v2/models/x").status == 200
    assert triton.paths == ["/v2/models/whole"]


def test_two_requests_in_one_are_two_questions(fresh: Stand) -> None:
    """What hides in a body by two lengths is refused, or a request of its own."""
    master, _, door = fresh
    hidden = b"POST /v2/models/hidden/infer HTTP/1.1\r\nHost: lb\r\nContent-Length: 0\r\n\r\n"
    for lengths in (
        b"Content-Length: 0\r\nTransfer-Encoding: chunked",
        b"Content-Length: 0\r\nContent-Length: %d" % len(hidden),
        b"Transfer-Encoding: identity, chunked",
        b"Transfer-Encoding : chunked",
    ):
        master.rights = lambda asked: asked[2] != "hidden"
        head = b"POST /v2/models/open/infer HTTP/1.1\r\nHost: lb\r\nConnection: close\r\n"
        answer = door.raw(head + lengths + b"\r\n\r\n0\r\n\r\n" + hidden)
        assert answer.body.count(b"HTTP/1.1 200") == 0
        assert "/v2/models/hidden/infer" not in fresh[1].paths


# -- who

USERS = [
    ("", "?user.name=alice", 200, "alice"),
    ("knows @", "?user.name=alice%40EXAMPLE.COM", 200, "alice@EXAMPLE.COM"),
    ("other parameters", "?x=1&user.name=alice", 200, "alice"),
    ("not the last", "?user.name=alice&x=1", 403, ""),
    ("none", "", 403, ""),
    ("empty", "?user.name=", 403, ""),
    ("another spelling", "?User.Name=alice", 403, ""),
    ("encoded", "?user%2ename=alice", 403, ""),
    ("a sign too many", "?user.name=al%20ice", 403, ""),
    ("a line", "?user.name=alice%0d%0aX-TARN-User:%20root", 403, ""),
    ("a dash first", "?user.name=-alice", 403, ""),
    ("too long", f"?user.name={'a' * 256}", 403, ""),
    ("two", "?user.name=root&user.name=alice", 400, ""),
    ("two, spelled", "?USER.NAME=root&user.name=alice", 400, ""),
    ("two, encoded", "?user%2Ename=root&user.name=alice", 400, ""),
    ("two, encoded twice", "?%2575ser.name=root&user.name=alice", 400, ""),
    ("two, by ;", "?a=1;user.name=root&user.name=alice", 400, ""),
    ("two, without a value", "?user.name&user.name=alice", 400, ""),
    ("two, with a blank", "?user.name+=root&user.name=alice", 400, ""),
    ("two, with a null", "?user.name%00=root&user.name=alice", 400, ""),
    ("two, behind ?", "?x=1?user.name=root&user.name=alice", 400, ""),
    ("two, in one name", "?x%26user.name=root&user.name=alice", 400, ""),
]


@pytest.mark.parametrize(("query", "status", "user"), [row[1:] for row in USERS])
def test_knox_names_a_user_in_one_way_only(
    fresh: Stand, query: str, status: int, user: str
) -> None:
    """The last parameter, once; the instance hears of it in a header, and no query."""
    _, triton, door = fresh
    answer = door.ask(f"/v2/models/who{query}", source="127.0.0.1", X_Tarn_Gate=GATE)
    assert answer.status == status, answer
    assert triton.paths == ["/v2/models/who"] * bool(user)
    if user:
        assert triton.last("x-tarn-user") == [user]


@pytest.mark.parametrize(
    ("source", "gate"),
    [("127.0.0.2", GATE), ("127.0.0.1", ""), ("127.0.0.1", GATE[:-1]), ("127.0.0.1", GATE + "x")],
)
def test_who_is_not_knox_is_nobody(fresh: Stand, source: str, gate: str) -> None:
    """The address without the gate, or the gate from another address: anonymous, and stripped."""
    _, triton, door = fresh
    said = {"X_Tarn_Gate": gate} if gate else {}
    forged = {"X_Tarn_User": "root", "x_tarn_by": "knox", **said}
    answer = door.ask("/v2/models/nobody?user.name=root", source=source, **forged)
    assert answer.status == 200
    assert triton.last("x-tarn-user") == ["anonymous"]
    names = {name.lower() for name, _ in triton.seen[-1][2]}
    assert {name for name in names if name.startswith("x-tarn")} == {"x-tarn-user"}
    assert triton.paths == ["/v2/models/nobody"]


def test_the_gate_may_stand_beside_one_of_the_clients(fresh: Stand) -> None:
    """Knox adds its own behind what a client sent; neither reaches the instance."""
    _, triton, door = fresh
    lines = (
        "GET /v2/models/gate?user.name=alice HTTP/1.1\r\nHost: lb\r\nConnection: close\r\n"
        f"X-Tarn-Gate: guessed\r\nX-Tarn-Gate: {GATE}\r\nUpgrade: h2c\r\nX-TARN-User: root\r\n\r\n"
    )
    assert door.raw(lines.encode()).status == 200
    assert triton.last("x-tarn-user") == ["alice"]
    assert triton.last("x-tarn-gate") == triton.last("upgrade") == []


def test_the_master_hears_the_proxys_token_and_nothing_of_the_client(fresh: Stand) -> None:
    """Each question is made again; the token stands in no file."""
    master, _, door = fresh
    door.knox("/v2/models/token", X_Tarn_Token="mine", X_Tarn_User="root")
    assert master.asked == [("alice", "metadata", "token")]
    assert master.tokens == {TOKEN}
    for file in (door.file, door.log, Path(door.settings.authz.lua)):
        assert TOKEN not in file.read_text()
        assert GATE not in file.read_text()


def test_a_sequence_is_kept_for_who_may_use_its_model_and_read_for_nobody_else(
    fresh: Stand,
) -> None:
    master, triton, door = fresh
    master.rights = lambda asked: asked[0] == "alice"
    readable, headers = sequence_body(7, 0, 3)

    def post(user: str, body: bytes, **more: str) -> Answer:
        lines = [
            f"POST /v2/models/acc/infer?user.name={user} HTTP/1.1",
            *("Host: lb", "Connection: close", f"X-Tarn-Gate: {GATE}"),
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in more.items()),
        ]
        return door.raw("\r\n".join([*lines, "", ""]).encode() + body)

    kept = int(door.statistics("triton_backend_keyed")["t"]["stot"])
    assert post("alice", readable, **headers).status == 200
    assert int(door.statistics("triton_backend_keyed")["t"]["stot"]) == kept + 1
    unreadable = post("alice", b"{")
    assert unreadable.status == 400
    assert b"X-Sequence-Id" in unreadable.body
    for body in (readable, b"{"):
        assert post("bob", body).status == 403
    assert triton.paths == ["/v2/models/acc/infer"]


def test_without_the_variables_haproxy_does_not_start(stand: Stand, tmp_path: Path) -> None:
    """It says which one is missing: never a HAProxy that lets pass, or believes, everybody."""
    master, triton, _ = stand
    for name in ("TARN_PROXY_TOKEN", "TARN_KNOX_GATE"):
        door = GuardedHaproxy(tmp_path, master, triton.port)
        door.environ[name] = "short"
        with pytest.raises(AssertionError), door:
            """It has ended."""
        assert f"{name} is missing" in door.log.read_text()


# -- answers

BROKEN = {
    "hangs": 0.9,
    "drips-head": 0.9,
    "drips-body": 0.6,
    "endless": 0.6,
    "resets": 0.4,
    "no-http": 0.4,
    "html": 0.4,
    "garbage": 0.4,
    "loud": 0.4,
    "huge": 0.4,
    "fails": 0.4,
    "empty": 0.4,
    "forbids": 0.4,
    "begins": 0.4,
    "hurried": 0.4,
}
"""How a master may be broken, and within how many seconds a client is told."""


@pytest.mark.parametrize("mode", sorted(BROKEN))
def test_a_broken_master_is_a_no_and_soon(fresh: Stand, mode: str) -> None:
    """503, and not 403: it is not known whether they may. Asked once, not again and again."""
    master, triton, door = fresh
    master.mode = mode
    answer = door.knox(f"/v2/models/broken-{mode}/infer", "POST")
    assert answer.status == 503
    assert b"cannot be asked" in answer.body
    assert answer.after_s < 3 * BROKEN[mode]
    assert len(master.asked) == 1
    assert triton.seen == []


def test_a_master_that_is_gone_is_a_no_at_once(tmp_path: Path) -> None:
    """And one that is back is asked with the first request after a second."""
    with guarded(tmp_path) as (master, _, door):
        master.stop()
        answer = door.knox("/v2/models/gone")
        assert (answer.status, answer.after_s < 0.9) == (503, True)
        master.start()
        PAUSE.wait(1.1)
        assert door.knox("/v2/models/gone").status == 200


def test_twenty_at_once_are_one_question(fresh: Stand) -> None:
    """All of them wait for the same answer, whatever it is."""
    master, _, door = fresh
    master.delay_s = 0.2
    for model, allowed, status in (("many", True, 200), ("none", False, 403)):
        master.rights = lambda _asked, allowed=allowed: allowed
        with ThreadPoolExecutor(20) as pool:
            path = f"/v2/models/{model}/infer"
            answers = list(pool.map(lambda _: door.knox(path, "POST"), range(20)))  # noqa: B023
        assert [one.status for one in answers] == [status] * 20
        assert max(one.after_s for one in answers) < 2  # one after the other they take 4 s
        assert master.times(("alice", "infer", model)) == 1


def test_a_hung_master_holds_up_nobody_who_is_known(fresh: Stand) -> None:
    """Whose right is remembered passes meanwhile; whoever waits does so for a bounded time."""
    master, _, door = fresh
    assert door.knox("/v2/models/known").status == 200
    master.mode = "hangs"
    with ThreadPoolExecutor(60) as pool:
        waiting = [
            pool.submit(door.knox, f"/v2/models/m{number}", user=f"u{number}")
            for number in range(60)
        ]
        PAUSE.wait(0.2)
        known = door.knox("/v2/models/known")
        answers = [one.result() for one in waiting]
    assert (known.status, known.after_s < 0.6) == (200, True)
    assert {one.status for one in answers} == {503}
    assert max(one.after_s for one in answers) < 6


def test_one_user_has_a_bounded_number_of_questions(fresh: Stand) -> None:
    """Who invents models is told to come again; another user is answered meanwhile."""
    master, _, door = fresh
    master.delay_s = 0.3
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(door.ask, f"/v2/models/invented{n}") for n in range(40)]
        PAUSE.wait(0.05)
        assert door.knox("/v2/models/mine").status == 200
        statuses = [one.result().status for one in asked]
    assert {200, 503} == set(statuses)
    assert len([one for one in master.asked if one[0] == "anonymous"]) <= 32


def test_a_right_is_asked_about_again_whatever_else_its_user_asks(tmp_path: Path) -> None:
    """Everybody without a proof is one user: inventions of some take no right of the others."""
    with guarded(tmp_path, grace_s=0) as (master, _, door):
        assert door.ask("/v2/models/public").status == 200
        PAUSE.wait(5.1)
        master.delay_s = 0.15  # HAProxy waits half a second, also on a busy machine
        with ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(door.ask, f"/v2/models/invented{n}") for n in range(40)]
            until(lambda: len(master.asked) > 16, 2, "as many questions as one user may have")
            assert door.ask("/v2/models/public").status == 200
            assert 503 in {one.result().status for one in asked}


def test_a_client_that_leaves_stops_no_other(fresh: Stand) -> None:
    """The question that it had begun is answered, or asked again."""
    master, _, door = fresh
    master.delay_s = 0.3
    path = "/v2/models/left?user.name=alice"
    with pytest.raises(TimeoutError):
        door.raw(
            f"GET {path} HTTP/1.1\r\nHost: lb\r\nX-Tarn-Gate: {GATE}\r\n\r\n".encode(),
            within_s=0.1,
        )
    answer = door.knox("/v2/models/left")
    assert (answer.status, answer.after_s < 5) == (200, True)


def test_answers_are_kept_for_a_few_seconds_and_a_right_outlives_the_master_for_its_grace(
    tmp_path: Path,
) -> None:
    """Allowed 5 s, denied 2 s; with the master gone a right holds for the grace, a no ends it."""
    with guarded(tmp_path, grace_s=7) as (master, _, door):
        began_s = time.monotonic()

        def at(second: float) -> None:
            PAUSE.wait(max(0.0, began_s + second - time.monotonic()))

        def status(model: str) -> int:
            return door.knox(f"/v2/models/{model}/infer", "POST").status

        master.rights = lambda asked: asked[2] != "denied"
        models = ("kept", "withdrawn", "denied")
        assert [status(one) for one in models] == [200, 200, 403]
        at(1.5)
        assert [status(one) for one in models] == [200, 200, 403]
        assert len(master.asked) == 3
        at(2.3)
        assert status("denied") == 403
        assert master.times(("alice", "infer", "denied")) == 2
        master.stop()
        at(5.3)
        assert [status(one) for one in ("kept", "withdrawn", "never")] == [200, 200, 503]
        master.rights = lambda asked: asked[2] != "withdrawn"
        master.start()
        at(6.5)
        assert status("withdrawn") == 403
        master.stop()
        at(8.6)
        assert [status(one) for one in ("withdrawn", "kept")] == [503, 503]


def test_a_master_that_is_there_and_says_neither_has_no_grace(tmp_path: Path) -> None:
    """It may have lost the rights' source, or does not believe the proxy: no is the safe word."""
    modes = ("fails", "forbids", "garbage")
    with guarded(tmp_path, grace_s=30) as (master, _, door):
        assert [door.knox(f"/v2/models/{mode}").status for mode in modes] == [200] * 3
        PAUSE.wait(5.1)
        for master.mode in modes:
            assert door.knox(f"/v2/models/{master.mode}").status == 503


def test_a_right_outlives_a_master_that_cannot_tell_now(tmp_path: Path) -> None:
    """It just began (503), or the user asked too often (429); then a no counts."""
    with guarded(tmp_path, grace_s=30) as (master, _, door):
        assert door.knox("/v2/models/begun").status == 200
        PAUSE.wait(5.1)
        for mode in ("begins", "hurried"):
            master.mode = mode
            assert door.knox("/v2/models/begun").status == 200
            assert door.knox(f"/v2/models/unknown-{mode}").status == 503
            PAUSE.wait(1.1)
        assert {"why=grace", "why=away"} <= set(door.log.read_text().split())
        master.mode, master.rights = "well", lambda _asked: False
        PAUSE.wait(1.1)
        assert door.knox("/v2/models/begun").status == 403


def test_what_is_logged_names_user_model_and_reason(fresh: Stand) -> None:
    """And nothing that a client could make up."""
    master, _, door = fresh
    master.rights = lambda _asked: False
    door.knox("/v2/models/logged/infer", "POST")
    door.ask("/v2/models/%0auser=root")
    words = "user=alice by=knox model=logged action=infer why=false"
    until(lambda: words in door.log.read_text(), 2, "a line")
    assert "user=root" not in door.log.read_text()


def test_the_hop_is_no_way_to_the_master_for_others(fresh: Stand) -> None:
    """Without the token it is the same door as the master's own; another path is refused."""
    _, _, door = fresh
    port, door.http_port = door.http_port, door.ask_port
    try:
        assert door.ask("/api/v1/status", source="127.0.0.1").status == 403
        stranger = door.ask("/authorize?user=a&action=infer&model=m", source="127.0.0.1")
        assert stranger.status == 500
    finally:
        door.http_port = port
    assert urlsplit(f"//127.0.0.1:{door.ask_port}").port == door.ask_port


SHAPES = [
    ({"api": True}, {"slots": 3, "log": "syslog"}),
    ({"api": True}, {"answers": True, "keyed": None}),
    ({"knox": (), "master": "10.0.0.7:40001", "grace_s": 0}, {"stats_port": 8404}),
    ({"knox": ("10.0.0.0/8", "::1"), "client_ca": "CRT"}, {"certificate": "CRT"}),
    (
        {"client_ca": "CRT", "grpc_all_models": True, "master_ca": "CRT"},
        {"certificate": "CRT", "grpc_port": 8081, "slots": 1, "answers": True},
    ),
]


@pytest.mark.parametrize(("more", "plain"), SHAPES)
def test_haproxy_takes_every_shape_without_a_warning(
    tmp_path: Path, more: dict[str, object], plain: dict[str, object]
) -> None:
    """What is rendered, `haproxy -c` finds valid."""
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run(
        [*make, "-keyout", "key", "-out", "crt"], cwd=tmp_path, check=True, capture_output=True
    )
    pem = tmp_path / "lb.pem"
    pem.write_text((tmp_path / "crt").read_text() + (tmp_path / "key").read_text())
    more, plain = (
        {key: str(pem) if value == "CRT" else value for key, value in one.items()}
        for one in (more, plain)
    )
    door = GuardedHaproxy(tmp_path, None, 0, more, **plain)
    door.file.write_text(render(door.settings))
    done = subprocess.run(
        [str(HAPROXY), "-c", "-f", str(door.file)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env=door.environ,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
