"""A page of somebody else in a real browser: it can make a master do nothing, and read nothing.

The master asks nobody for a proof (`api: {token: none}`): only what browsers and the master say
of pages stands between.
"""

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_master import FakeMaster
from playwright.sync_api import Browser, Page
from servers.browser import running_chromium

from tarn.domain import ProxyRule

TRIES = """async ([master, proof]) => {
  const told = [];
  const body = JSON.stringify({replicas: 1});
  const json = {"Content-Type": "application/json"};
  const tries = {
    "put": {method: "PUT", headers: json, body},
    "put as a program": {method: "PUT", headers: {...json, "X-TARN-Session": "s1.x"}, body},
    "put without a type": {method: "PUT"},
    "put with credentials": {method: "PUT", credentials: "include", headers: json, body},
    "post as text": {method: "POST", headers: {"Content-Type": "text/plain"}, body},
    "post blind": {method: "POST", mode: "no-cors", body},
    "put blind": {method: "PUT", mode: "no-cors", body},
    "post that claims to be a put": {
      method: "POST", headers: {...json, "X-HTTP-Method-Override": "PUT"}, body},
  };
  for (const path of ["scale", "scale?csrf=" + proof, "down", "session", "session/link"]) {
    for (const [name, options] of Object.entries(tries)) {
      try {
        const answer = await fetch(`${master}/api/v1/${path}`, options);
        if (answer.type !== "opaque") told.push(`${name} ${path}: ${answer.status}`);
      } catch { /* the browser refused, or may not tell */ }
    }
    navigator.sendBeacon(`${master}/api/v1/${path}`, body);
    const form = document.createElement("form");
    Object.assign(form, {method: "post", action: `${master}/api/v1/${path}`, target: "hole"});
    document.body.append(form);
    form.submit();
    await new Promise((done) => { document.getElementById("hole").onload = done; });
  }
  return told;
}"""
READS = """async (master) => {
  const told = [];
  for (const path of ["api/v1/me", "api/v1/status", "instances", "metrics", "config", "health"]) {
    try { told.push(await (await fetch(`${master}/${path}`)).text()); } catch { /* not for it */ }
    try {
      const blind = await fetch(`${master}/${path}`, {mode: "no-cors"});
      told.push(await blind.text());
    } catch { /* not for it either */ }
  }
  for (const tag of ["script", "img", "iframe"]) {
    const one = document.createElement(tag);
    const loaded = new Promise((done) => { one.onload = done; one.onerror = done; });
    one.src = `${master}/`;
    document.body.append(one);
    await loaded;
    try { told.push(one.contentDocument?.body?.innerText); } catch { /* another origin's */ }
  }
  return told.filter(Boolean);
}"""
OWN = """async (path) => {
  const body = JSON.stringify({replicas: 1});
  const headers = {"Content-Type": "application/json"};
  return (await fetch(path, {method: "PUT", headers, body})).status;
}"""


class _Foreign(http.server.BaseHTTPRequestHandler):
    """The page of somebody else."""

    def do_GET(self) -> None:
        page = b"<!doctype html><body>hello<iframe id=hole name=hole></iframe>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def foreign() -> Iterator[int]:
    """The port of a server of somebody else's page."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Foreign)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as one:
        yield one


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    """One whose runtime's proxy is on this machine, too: a page's proof may count from here."""
    rule = ProxyRule(frozenset({"127.0.0.1"}), "alice")
    with FakeMaster(api_token=None, proxy=rule) as running:
        yield running


def opened(browser: Browser, url: str, **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    page.goto(url)
    return page


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_somebody_else_changes_nothing(
    browser: Browser, foreign: int, master: FakeMaster, host: str
) -> None:
    """At another port of the machine (the same site), and at another name of it (another site)."""
    page = opened(browser, f"http://{host}:{foreign}/")
    proof = opened(browser, f"{master.url}/api/v1/me").inner_text("body").split('"csrf": "')[1]
    told = page.evaluate(TRIES, [master.url, proof.partition('"')[0]])
    assert told == []
    assert master.commands == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_somebody_else_reads_nothing(
    browser: Browser, foreign: int, master: FakeMaster, host: str
) -> None:
    """No answer, no frame: so no proof for a write either."""
    page = opened(browser, f"http://{host}:{foreign}/")
    assert page.evaluate(READS, master.url) == []


def test_a_page_of_the_master_itself_may_write(browser: Browser, master: FakeMaster) -> None:
    """The same request from the right page: what was refused above is refused for the page."""
    page = opened(browser, f"{master.url}/", bypass_csp=True)
    assert page.evaluate(OWN, "/api/v1/scale") == 200
    assert len(master.commands) == 1
