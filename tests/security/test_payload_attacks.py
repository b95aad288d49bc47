"""What strangers may send to a real server: by name, and none of it gets them anything.

Everything is written to sockets by hand: no client library corrects it on the way.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator

import attrs
import pytest
from fake_master import (
    TOKEN,
    FakeMaster,
    PolicyAuthorizer,
    event,
    instance,
    reading,
    rendered,
    snapshot,
)
from prometheus_client.parser import text_string_to_metric_families

from tarn.domain import PauseScaling
from tarn.http import answers, connection
from tarn.http.admission import LARGEST_TARGET
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.request import Hosts
from tarn.http.server import LARGEST_HEAD, HttpServer

SECRETS = ("llama-0001", "127.0.0.1:80", "replicas")
"""What only somebody who was let in gets to see."""
NAMED = Hosts.of(("master",))
"""As `request` calls it."""
RIGHT = b"X-TARN-Token: " + TOKEN + b"\r\n"


@pytest.fixture(scope="module")
def master() -> Iterator[FakeMaster]:
    with FakeMaster() as running:
        yield running


def exchange(port: int, sent: bytes, *, within_s: float = 10.0) -> bytes:
    """Send *sent*, then everything that comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=within_s) as raw:
        got = b""
        try:
            raw.sendall(sent)
            while part := raw.recv(65536):
                got += part
        except ConnectionError:
            pass  # it was cut while it was still talking
        return got


def request(
    target: bytes, headers: bytes = b"", body: bytes = b"", method: bytes = b"GET"
) -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    head = method + b" " + target + b" HTTP/1.1\r\nHost: master\r\nConnection: close\r\n"
    return head + length + headers + b"\r\n" + body


def status(answer: bytes) -> int:
    """Return the status of the only answer; 0 where the server just hung up."""
    assert len(re.findall(rb"^HTTP/1\.1 \d", answer, re.MULTILINE)) <= 1
    return int(answer[9:12]) if answer else 0


PATHS = (
    *(b"/health/../config", b"/health/..%2fconfig", b"/%2e%2e/config", b"/./config", b"//config"),
    *(b"/livez/%2e%2e/config", b"/livez\\..\\config", b"/health;/config", b"/health%3b/config"),
    *(b"/config%00", b"/config%0a", b"/config%20", b"/config/", b"/CONFIG", b"/%63onfig"),
    *(
        b"/health%2f",
        b"/health%00/config",
        b"http://master/config",
        b"http://evil/health/../config",
    ),
    *(b"/health?/config", b"/health#/config", b"/%2fconfig", b"/health/%c0%ae%c0%ae/config"),
    *(b"/api/v1/../../config", b"/%252e%252e/config", b"/health%ef%bc%8f..%ef%bc%8fconfig"),
    *(b"*", b"config", b"/..;/config", b"/api/v1/followers/../status", b"/health%0d%0aX:%20y"),
)


@pytest.mark.parametrize("target", PATHS)
def test_path_tricks_open_nothing(master: FakeMaster, target: bytes) -> None:
    """Without a proof: nothing but the open pages, which name nobody; with it: no page but one."""
    answer = exchange(master.server.port, request(target))
    assert not any(secret.encode() in answer for secret in SECRETS)
    opened = target in (b"/health?/config", b"/health%2f")  # a slash at the end is the same page
    assert status(answer) in ({200} if opened else {0, 400, 401, 404})
    known = exchange(master.server.port, request(target, RIGHT))
    plain = opened or target in (b"/%63onfig", b"http://master/config", b"/config/")
    assert (status(known) == 200) <= plain


@pytest.mark.parametrize(
    "sent",
    [
        request(
            b"/api/v1/followers/x%0d%0aSet-Cookie:%20a=b",
            RIGHT + b"Content-Type: application/json\r\n",
            b'{"epoch": "1-1", "revision": 1}',
            b"PUT",
        ),
        request(b"/nowhere%0d%0aSet-Cookie:%20a=b", RIGHT),
        request(b"/authorize?model=x%0d%0aSet-Cookie:%20a=b&action=infer", RIGHT),
        request(b"/api/v1/scale", RIGHT + b'If-Match: "1\rSet-Cookie: a=b"\r\n', b"", b"PUT"),
        request(b"/config", RIGHT + b"X: a\nSet-Cookie: a=b\r\n"),
        request(b"/config", RIGHT + b"X: a\r\n Set-Cookie: a=b\r\n"),
        request(b"/config", RIGHT + b"X: a\0b\r\n"),
        request(b"/config", RIGHT + b"X : b\r\n"),
        request(b"/config\tHTTP/1.1\r\nX: y\r\n\r\n", RIGHT),
    ],
)
def test_line_breaks_forge_no_header_and_no_second_answer(master: FakeMaster, sent: bytes) -> None:
    """Neither decoded ones, nor raw ones in a value."""
    answer = exchange(master.server.port, sent)
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"\nset-cookie" not in head
    assert status(answer) in {0, 200, 400, 404}


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: 2, 3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999\r\n",
    ],
)
def test_a_length_that_can_be_read_in_two_ways_hides_no_second_request(
    master: FakeMaster, lines: bytes
) -> None:
    """What stands behind is never answered: a proxy in front might have let it pass."""
    hidden = b"PUT /api/v1/down HTTP/1.1\r\nHost: x\r\n" + RIGHT + b"\r\n"
    kind = b"Content-Type: application/json\r\n"
    head = b"PUT /api/v1/resume HTTP/1.1\r\nHost: x\r\n" + RIGHT + kind + lines + b"\r\n"
    before = list(master.commands)
    answer = exchange(master.server.port, head + b"0\r\n\r\n" + hidden)
    assert status(answer) in {0, 400, 413, 501}
    assert master.commands == before


def test_each_request_of_a_connection_is_looked_at_by_itself(master: FakeMaster) -> None:
    """A good one in front opens nothing for the next; sent together, they are answered in turn."""
    good = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    known = b"GET /instances HTTP/1.1\r\nHost: x\r\n" + RIGHT + b"\r\n"
    answer = exchange(master.server.port, good + known + request(b"/config"))
    assert [int(s) for s in re.findall(rb"HTTP/1\.1 (\d{3})", answer)] == [200, 200, 401]


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (request(b"/health", b"X: " + b"a" * LARGEST_HEAD + b"\r\n"), {0, 400, 431}),
        (request(b"/" + b"a" * LARGEST_HEAD), {0, 400, 414, 431}),
        (request(b"/health?" + b"a" * LARGEST_TARGET), {414}),
        (request(b"/health", b"".join(b"X%d: y\r\n" % n for n in range(20_000))), {0, 400, 431}),
        (request(b"/authorize?" + b"a=b&" * 1_000 + b"model=a&action=infer", RIGHT), {400}),
        (request(b"/metrics?" + b"token=x&" * 1_000), {401}),
        (
            request(
                b"/api/v1/scale",
                RIGHT + b"Content-Type: application/json\r\n",
                b'{"replicas": ' + b"1" * 300_000 + b"}",
                b"PUT",
            ),
            {413},
        ),
        (
            request(
                b"/api/v1/scale",
                RIGHT + b"Content-Type: application/json\r\n",
                b'{"replicas": ' + b"[" * 100_000,
                b"PUT",
            ),
            {400},
        ),
        (
            request(
                b"/api/v1/scale",
                RIGHT + b"Content-Type: application/json\r\n",
                b'{"replicas": ' + b"9" * 100_000 + b"}",
                b"PUT",
            ),
            {400},
        ),
        (
            b"PUT /api/v1/scale HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: application/json\r\n" + RIGHT + b"\r\n" + b"fff\r\n" + b"1" * 4095
            + b"\r\n" + (b"fff\r\n" + b"1" * 4095 + b"\r\n") * 70,
            {413},
        ),
        (request(b"/api/v1/scale", b"", b"x" * 1_000_000, b"PUT"), {0, 401}),
    ],
)  # fmt: skip
def test_oversize_is_refused_at_its_bound(
    master: FakeMaster, sent: bytes, answers: set[int]
) -> None:
    """Heads, paths, fields, answers, nesting, numbers: refused, and the server goes on."""
    before = list(master.commands)
    assert status(exchange(master.server.port, sent)) in answers
    assert master.commands == before
    assert status(exchange(master.server.port, request(b"/livez"))) == 200


def test_slow_heads_and_slow_answers_hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred connections with a byte each are cut; the others are answered all the while."""
    monkeypatch.setattr(answers, "BODY_WITHIN_S", 0.3)
    slow = FakeMaster()
    slow.server.close()
    slow.server = HttpServer(head_within_s=0.4)
    with slow:
        port = slow.server.port
        heads = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(100)]
        body = socket.create_connection(("127.0.0.1", port), timeout=10)
        kind = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        body.sendall(b"PUT /api/v1/scale HTTP/1.1\r\nHost: x\r\n" + RIGHT + kind)
        try:
            for number, one in enumerate(heads):
                one.sendall(b"GET /livez HTTP/1.1\r\nX: "[: 1 + number % 22])
            took_s = time.monotonic()
            assert status(exchange(port, request(b"/livez"))) == 200
            assert time.monotonic() - took_s < 2
            assert [one.recv(10) for one in heads] == [b""] * 100
            assert body.recv(100).startswith(b"HTTP/1.1 408 ")
        finally:
            for one in (*heads, body):
                one.close()


def test_who_reads_nothing_of_a_stream_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is free again, and the server holds none of what it did not take."""
    monkeypatch.setattr(connection, "TAKEN_WITHIN_S", 0.3)
    deaf = FakeMaster(api_token=None, hosts=NAMED)
    deaf.server.close()
    deaf.server = HttpServer(head_within_s=0.3)
    pause = threading.Event()
    with deaf, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(10)
        raw.connect(("127.0.0.1", deaf.server.port))
        raw.sendall(request(b"/api/v1/events", b"Accept: text/event-stream\r\n"))
        streams = lambda: len(deaf.app._api._places)  # noqa: E731
        assert any(streams() == 1 or pause.wait(0.02) for _ in range(250))
        for number in range(40):
            if streams() == 0:
                break
            deaf.publish(events=(event(f"{number} " + "x" * 3_000_000),))
            pause.wait(0.02)
        assert any(streams() == 0 or pause.wait(0.02) for _ in range(250))
        connections = lambda: deaf.server._uvicorn.server_state.connections  # type: ignore[union-attr]  # noqa: E731
        assert any(not connections() or pause.wait(0.02) for _ in range(250))


@pytest.mark.parametrize(
    ("headers", "answers"),
    [
        (b"X-TARN-Token: \xff\xfe\r\n", {400, 401}),
        (b"X-TARN-Token: " + "corréct-horse".encode() + b"\r\n", {401}),
        (b"X-TARN-Token: " + TOKEN + b"\xc2\xa0\r\n", {401}),
        (b"Authorization: Bearer " + TOKEN.upper() + b"\r\n", {401}),
        (b"Authorization: Bearer " + TOKEN + "\u200b".encode() + b"\r\n", {401}),
        (b"Authorization: Negotiate \xff\xff\r\n", {400, 401}),
        (b"Cookie: proxy-user=\xff; \xff=\xff\r\n", {400, 401}),
        ("X-TARN-Üser: ops\r\n".encode(), {0, 400}),
        (b"X-TARN-User: ops\xff\r\nX-Forwarded-User: \xf0\x28\r\n", {400, 401}),
    ],
)
def test_what_is_not_ascii_proves_nothing_and_breaks_nothing(
    master: FakeMaster, headers: bytes, answers: set[int]
) -> None:
    """No look-alike of the token, no 500."""
    answer = exchange(master.server.port, request(b"/config", headers))
    assert status(answer) in answers
    assert TOKEN not in answer


@pytest.mark.parametrize(
    "target",
    [
        *(b"/%ff", b"/api/v1/followers/%ff%fe", b"/config?%ff=%fe", b"/caf\xc3\xa9", b"/\xff"),
        *(b"/authorize?model=%ff&action=infer", b"/authorize?model=\xc3\xa9&action=infer"),
        *("/авторизация".encode(), b"/authorize?user=%u0041&model=a&action=infer&%00=%00"),
    ],
)
def test_what_is_not_ascii_in_a_target_is_no_page(master: FakeMaster, target: bytes) -> None:
    """Known or not, an answer that names what is wrong; never a 500."""
    for headers in (b"", RIGHT):
        assert status(exchange(master.server.port, request(target, headers))) in {
            *(0, 400, 401, 404, 405),
            *({200} if target.startswith(b"/config?") and headers else ()),
        }


def test_names_forge_no_label_no_line_and_no_html() -> None:
    """However a container, a reason or a cluster is called."""
    odd = '</title><script>x</script>"} 1\ntarn_forged{a="\\\r\n'
    one = instance(1, container_id=odd, reason=odd, node=odd)
    picture = snapshot(one, reason=odd, events=(event(odd),), name=odd)
    gpus = {f'gpu_utilization{{gpu="{odd}"}}': 0.5}
    picture = rendered(attrs.evolve(picture, readings={one.id: reading(1, **gpus)}))
    with FakeMaster(picture, api_token=None, hosts=NAMED, config={"name": odd}) as master:
        port = master.server.port
        got = {
            path: exchange(port, request(path.encode())).partition(b"\r\n\r\n")[2]
            for path in ("/", "/metrics", "/config", "/api/v1/status", "/api/v1/events")
        }
        stream = request(b"/api/v1/events", b"Accept: text/event-stream\r\n")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(stream)
            told = b""
            while b"\n\n" not in told.partition(b"\r\n\r\n")[2]:
                told += raw.recv(65536)
    assert b"<script>" not in got["/"]
    families = {f.name for f in text_string_to_metric_families(got["/metrics"].decode())}
    assert "tarn_forged" not in families
    assert "tarn_ready_instances" in families
    assert got["/config"].count(b"\n") == 1
    assert json.loads(got["/api/v1/status"])["reason"] == odd
    assert json.loads(got["/api/v1/events"])["events"][0]["message"] == odd
    assert sum(line.startswith("data: ") for line in told.decode().splitlines()) == 1


@pytest.mark.parametrize(
    "lines",
    [
        b"X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\n",
        b"X-Original-URL: /config\r\nX-Rewrite-URL: /config\r\n",
        b"X-HTTP-Method-Override: PUT\r\nX-Method-Override: PUT\r\n",
        b"X-Forwarded-Prefix: //evil.example\r\nX-ProxyContextPath: //evil.example\r\n",
        b"Forwarded: host=evil.example;for=127.0.0.1\r\nX-Forwarded-For: 127.0.0.1\r\n",
        b"Cookie: proxy-user=//evil.example\r\n",
    ],
)
def test_no_header_changes_an_answer_that_a_cache_might_keep(
    master: FakeMaster, lines: bytes
) -> None:
    """Neither by another path, method or host; and no answer may be kept anyway."""
    for target in (b"/", b"/health", b"/config", b"/api/v1/status/", b"/api/v1/down"):
        for headers in (b"", RIGHT):
            sent = request(target, headers + lines).replace(b"Host: master", b"Host: evil.example")
            answer, plain = (
                exchange(master.server.port, one) for one in (sent, request(target, headers))
            )
            assert b"evil" not in answer
            assert b"cache-control: no-store" in answer.lower()
            assert status(answer) == status(plain)
            assert status(answer) // 100 != 3  # a redirect would be told by the Host
    assert master.commands == [] or PauseScaling not in map(type, master.commands)


def test_a_write_that_was_seen_is_of_no_use_a_second_time(master: FakeMaster) -> None:
    """With ``If-Match`` a replay is 412; without the token, or with it in the query, 401."""
    revision = b"%d" % master.board.current.spec_revision
    lines = b'Content-Type: application/json\r\nIf-Match: "' + revision + b'"\r\n'
    sent = request(b"/api/v1/scale", RIGHT + lines, b'{"replicas": 2}', b"PUT")
    port = master.server.port
    assert [status(exchange(port, sent)) for _ in range(2)] == [200, 412]
    bare = request(b"/api/v1/scale?token=" + TOKEN, lines, b'{"replicas": 2}', b"PUT")
    assert status(exchange(port, bare)) == 401
    early = sent.replace(b"\r\nIf-Match", b"\r\nExpect: 100-continue\r\nIf-Match")
    assert exchange(port, early.replace(TOKEN, b"wrong")).startswith(b"HTTP/1.1 401 ")


def test_a_verdict_is_asked_for_each_time_and_kept_by_nobody() -> None:
    """A right that was taken away is gone with the next question."""
    authorizer = PolicyAuthorizer(rights={("anonymous", "infer", "ocr")})
    with FakeMaster(api_token=None, hosts=NAMED, gate=DirectAuthorizer(authorizer)) as master:
        sent = request(b"/authorize?model=ocr&action=infer")
        first = exchange(master.server.port, sent)
        authorizer.rights.clear()
        second = exchange(master.server.port, sent)
    assert first.endswith(b"\r\n\r\ntrue")
    assert second.endswith(b"\r\n\r\nfalse")
    assert b"cache-control: no-store" in first.lower()


@pytest.mark.parametrize(
    ("lines", "body", "expected"),
    [
        (b"Origin: http://evil.example\r\n", b"", 403),
        (b"Origin: null\r\n", b"", 403),
        (b"Origin: http://master.evil.example\r\n", b"", 403),
        (b"Origin: http://master@evil.example\r\n", b"", 403),
        (b"Origin: http://master\r\nOrigin: http://evil.example\r\n", b"", 403),
        (b"Origin: http://master:81\r\n", b"", 403),
        (b"Origin: file://\r\n", b"", 403),
        (b"Sec-Fetch-Site: cross-site\r\n", b"", 403),
        (b"Sec-Fetch-Site: same-site\r\n", b"", 403),
        (b"Content-Type: text/plain\r\n", b"{}", 415),
        (b"Content-Type: application/x-www-form-urlencoded\r\n", b"{}", 415),
        (b"Content-Type: multipart/form-data; boundary=x\r\n", b"{}", 415),
        (b"", b"{}", 415),
        (b"Origin: http://MASTER\r\nSec-Fetch-Site: same-origin\r\n", b"", 200),
        (b"Sec-Fetch-Site: none\r\n", b"", 200),
        (b"Content-Type: application/json; charset=utf-8\r\n", b"{}", 200),
        # what the proxy of YARN's ResourceManager makes of a PUT without a body
        (b"Content-Type: text/plain; charset=ISO-8859-1\r\nContent-Length: 0\r\n", b"", 200),
    ],
)
def test_the_page_of_another_site_makes_no_browser_write(
    master: FakeMaster, lines: bytes, body: bytes, expected: int
) -> None:
    """A write is JSON or empty, and of no other origin; what the proxies pass on is obeyed."""
    before = len(master.commands)
    sent = request(b"/api/v1/resume", RIGHT + lines, body, b"PUT")
    assert status(exchange(master.server.port, sent)) == expected
    assert len(master.commands) - before == (expected == 200)


@pytest.mark.parametrize(
    "method", [b"POST", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"PROPFIND", b"put"]
)
def test_no_other_method_does_anything_and_nobody_is_told_by_cors(
    master: FakeMaster, method: bytes
) -> None:
    """A browser that asks first, as it does before a PUT, gets no permission."""
    ask = b"Origin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n"
    before = len(master.commands)
    for headers in (b"", RIGHT):
        answer = exchange(master.server.port, request(b"/api/v1/down", headers + ask, b"", method))
        assert status(answer) in {0, 400, 401, 405}
        assert b"access-control" not in answer.lower()
        assert RIGHT.strip() not in answer
    assert len(master.commands) == before


def test_every_answer_carries_the_policy_that_lets_a_page_do_nothing(master: FakeMaster) -> None:
    """Of each kind: a page, JSON, a refusal, an error, a stream."""
    kinds = (
        (b"/", RIGHT, 200),
        (b"/api/v1/status", RIGHT, 200),
        (b"/config", b"", 401),
        (b"/nowhere", RIGHT, 404),
        (b"/authorize", RIGHT, 400),
        (b"/api/v1/stream", RIGHT, 406),
        (b"/health", b"", 200),
    )
    for target, headers, expected in kinds:
        answer = exchange(master.server.port, request(target, headers)).lower()
        assert status(answer.replace(b"http/1.1", b"HTTP/1.1")) == expected
        policies = re.findall(rb"content-security-policy: ([^\r]*)", answer)
        assert len(policies) == 1
        assert policies[0].startswith(b"default-src 'none'")
        assert b"frame-ancestors 'none'" in policies[0]
