"""What YARN's web servers are asked, and what an answer means."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tarn.errors import ProviderError
from tarn_plugins.runtime.yarn.hadoop import web
from tarn_plugins.runtime.yarn.hadoop.web import Web

HANDLER = "yarn.resourcemanager.placement-constraints.handler"


class Rm(ThreadingHTTPServer):
    """Answers ``/conf?name=…`` from *properties*, or everything with *code*."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.properties: dict[str, str] = {}
        self.code = 200
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    server: Rm

    def do_GET(self) -> None:
        name = self.path.partition("name=")[2]
        value = self.server.properties.get(name)
        code = self.server.code if value is not None or self.server.code != 200 else 404
        self.send_response(code)
        if code == 401:
            self.send_header("WWW-Authenticate", "Negotiate")
        body = json.dumps({"property": {"key": name, "value": value}}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture
def rm() -> Iterator[Rm]:
    with Rm() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("handler", "mode"),
    [
        ("scheduler", "scheduling"),
        ("placement-processor", "scheduling"),
        ("disabled", "plain"),
        ("odd", "plain"),
        (None, "plain"),
    ],
)
def test_the_live_handler_decides_the_placement(rm: Rm, handler: str | None, mode: str) -> None:
    """The RM's own value counts; none told is a reason too."""
    if handler is not None:
        rm.properties[HANDLER] = handler
    found = web.placement(Web((rm.url,)), federated=False)
    assert found.mode == mode
    assert bool(found.reason) is (mode == "plain")


@pytest.mark.parametrize(
    ("handler", "mode"), [("disabled", "plain"), ("scheduler", "scheduling"), (None, "scheduling")]
)
def test_a_later_master_takes_what_the_rm_says_today(
    rm: Rm, handler: str | None, mode: str
) -> None:
    """One that does not tell changes nothing; and plain asks always work."""
    if handler is not None:
        rm.properties[HANDLER] = handler
    asking = Web((rm.url,))
    assert web.placement_now(asking, web.Placement("scheduling")).mode == mode
    plain = web.Placement("plain", "as it was")
    assert web.placement_now(asking, plain) == plain


def test_a_federation_is_plain_without_a_question() -> None:
    """Its proxy would refuse constraints whatever the RMs say."""
    assert web.placement(Web(("http://127.0.0.1:1",)), federated=True).mode == "plain"


def test_of_two_masters_the_one_that_answers_counts(rm: Rm) -> None:
    """One that is down does not decide."""
    rm.properties[HANDLER] = "scheduler"
    assert Web(("http://127.0.0.1:1", rm.url)).property(HANDLER) == "scheduler"


def test_a_server_that_fails_is_an_error_with_its_address(rm: Rm) -> None:
    """The query, which may hold a token, is not in it."""
    rm.code = 500
    with pytest.raises(ProviderError, match="answered HTTP 500"):
        Web(()).get(f"{rm.url}/x?delegation=secret")
    with pytest.raises(ProviderError) as caught:
        Web(()).get("http://127.0.0.1:1/x?delegation=secret")
    assert "secret" not in str(caught.value)


def test_only_a_server_that_asks_everybody_for_a_ticket_proves_who_speaks(rm: Rm) -> None:
    """A cookie of a proxy that lets everybody in proves nothing."""
    rm.properties["hadoop.http.authentication.type"] = "kerberos"
    assert not Web(()).proves(rm.url)
    rm.code = 401
    assert Web(()).proves(rm.url)
    assert not Web(()).proves("http://127.0.0.1:1")


def test_proxies_are_addresses_each_once() -> None:
    """A name that does not resolve is left out."""
    found = web.addresses(
        ["http://127.0.0.1:8088", "https://127.0.0.1:8090", "http://no.invalid:1"]
    )
    assert found == ("127.0.0.1",)
