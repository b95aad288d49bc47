"""The master's own API behind HAProxy's door: who comes there, and what of their words."""

from collections.abc import Iterator

import pytest
from servers.guarded_haproxy import GATE, TOKEN, GuardedHaproxy, RecordingTriton
from servers.haproxy import HAPROXY

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
Pair = tuple[RecordingTriton, GuardedHaproxy]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Return what is asked instead of a master, and its door."""
    with RecordingTriton() as heard:
        root = tmp_path_factory.mktemp("api")
        with GuardedHaproxy(root, None, 0, {"api": True}) as door:
            server = "tarn_master_api/master"
            door.command(f"set server {server} addr 127.0.0.1 port {heard.port}")
            door.command(f"set server {server} state ready")
            yield heard, door


@pytest.fixture
def fresh(pair: Pair) -> Pair:
    pair[0].seen.clear()
    return pair


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        ("/tarn/api/v1/status", "/api/v1/status"),
        ("/tarn/", "/"),
        ("/tarn/authorize?model=*&action=list", "/authorize?model=*&action=list"),
        ("/tarn/config?doAs=root&x=1", "/config?x=1"),
        ("/tarn/metrics?token=t", "/metrics"),
        ("/tarn/api/v1/events?since=4&odd'=1&also=a b", "/api/v1/events?since=4"),
    ],
)
def test_a_known_user_reaches_the_master_under_their_name(
    fresh: Pair, sent: str, passed: str
) -> None:
    """What says nothing of a user passes; the proxy proves itself by its own token."""
    heard, door = fresh
    forged = {"X_Tarn_Token": "mine", "X_Tarn_User": "root", "Cookie": "proxy-user=root"}
    sent = sent.replace(" ", "%20")
    assert door.knox(sent, **forged, Authorization="Bearer mine").status == 200
    found = [path.replace("&also=a%20b", "") for path in heard.paths]
    assert found == [passed]
    assert heard.last("x-tarn-user") == ["alice"]
    assert heard.last("x-tarn-token") == [TOKEN]
    assert heard.last("authorization") == heard.last("cookie") == heard.last("x-tarn-gate") == []


def test_a_command_passes_and_other_methods_do_not(fresh: Pair) -> None:
    """The master's commands are PUTs; whether the user may is the master's to say."""
    heard, door = fresh
    assert door.knox("/tarn/api/v1/scale", "PUT", Content_Length="0").status == 200
    for method in ("POST", "DELETE", "OPTIONS"):
        assert door.knox("/tarn/api/v1/scale", method).status == 403
    assert [one for one, _, _ in heard.seen] == ["PUT"]


@pytest.mark.parametrize(
    ("source", "gate"), [("127.0.0.2", GATE), ("127.0.0.1", "wrong-gate-0123456789abcdef")]
)
def test_nobody_unknown_reaches_it(fresh: Pair, source: str, gate: str) -> None:
    """The token of the proxy would open what is nobody else's."""
    heard, door = fresh
    said = {"X_Tarn_Gate": gate, "X_Tarn_User": "alice"}
    assert door.ask("/tarn/api/v1/status?user.name=alice", "GET", source, **said).status == 403
    assert heard.seen == []


@pytest.mark.parametrize(
    "path", ["/tarn", "/tarn/../v2", "/tarn//api", "/tarn/%61pi", "/Tarn/api", "/tarnapi", "/api"]
)
def test_a_path_is_read_as_strictly_as_one_to_a_model(fresh: Pair, path: str) -> None:
    """Nothing is decoded, and nothing else than the door leads there."""
    heard, door = fresh
    assert door.knox(path).status == 403
    assert heard.seen == []


def test_without_a_master_it_is_said(pair: Pair) -> None:
    """503, and when to come again."""
    _, door = pair
    door.command("set server tarn_master_api/master state maint")
    answer = door.knox("/tarn/api/v1/status")
    door.command("set server tarn_master_api/master state ready")
    assert (answer.status, answer.body) == (503, b'{"error":"no master answers"}')
