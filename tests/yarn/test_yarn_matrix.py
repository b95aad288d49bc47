"""The rows of the ResourceManager's proxy in the table of who may what, through the real one.

A master on a Kerberized YARN, whose ResourceManager authenticates the users of its pages by SPNEGO
and names them to masters in its cookie.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

import attrs
import httpx
import pytest
from house import until
from playwright.sync_api import Page, expect
from security.cells import ask
from security.truth import table
from servers.browser import running_chromium
from servers.kerberos import ME
from servers.spnego_manager import ManagerPages, new_keytab, spnego_manager
from servers.yarn import Hadoop, YarnHouse
from stranger import install
from yarn_fleet import Fleet

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

DOOR = "RM proxy"
TESTS = Path(__file__).parents[1]
ALICE = {"X-TARN-User": "alice"}
COOKIE = {"Cookie": "proxy-user=alice"}
WRONG = {"X-TARN-Token": "a-token-that-is-nobody-s"}
ACTIONS = tuple(dict.fromkeys(action for _, _, action in table()))
SHOWN_MS = 30_000
ME_SAYS = "async () => (await fetch('api/v1/me')).json()"
RESUME = """async (query) => {
  const answer = await fetch(`api/v1/resume${query}`, {method: "PUT"});
  return {status: answer.status, body: await answer.json()};
}"""
"""What a page asks for; the proxy answers as the browser's user."""
PLUGIN = """\
from security.matrix_master import Alices, Nothing
from tarn.hookspecs import Factory, hookimpl


@hookimpl
def tarn_authorizers():
    return {"alices": Factory(Nothing, lambda _settings, _context: Alices(), "the table's")}
"""


@attrs.frozen
class Scene:
    """A fleet behind the proxy, and who asks."""

    fleet: Fleet
    door: ManagerPages
    caches: Mapping[str, Path]

    @property
    def url(self) -> str:
        return f"{self.door.url}/proxy/{self.fleet.application_id}"

    def ticket(self, user: str) -> Mapping[str, str]:
        """Return a fresh ticket of *user* for the pages of the ResourceManager."""
        return self.door.ticket(self.caches[user])

    def asked(self, action: str, headers: Mapping[str, str], whom: str = "alice") -> str:
        """Ask through the proxy, as somebody who was warned that the page is of another user."""
        seen = f"checked_{self.fleet.application_id}=true"
        cookies = "; ".join(filter(None, (seen, headers.get("Cookie"))))
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as client:
            return ask(client, action, {**headers, "Cookie": cookies}, whom)

    def session(self) -> Mapping[str, str]:
        """Sign in at the master itself, with its token."""
        url, body = f"{self.fleet.url}/api/v1/session", {"token": self.fleet.api_token}
        return {"X-TARN-Session": httpx.put(url, json=body, trust_env=False).json()["session"]}

    def known(self, user: str) -> Mapping[str, str]:
        """Return the proxy's own cookie for *user*, who shows a ticket once."""
        said = httpx.get(f"{self.door.url}/conf", headers=self.ticket(user), trust_env=False)
        assert said.status_code == 200
        return {"Cookie": f"hadoop.auth={said.cookies['hadoop.auth']}"}


@pytest.fixture(scope="module")
def scene(kerberized: Hadoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Bring up a master that has no instance to care for: it is asked who may what."""
    root = tmp_path_factory.mktemp("matrix")
    kerberized.log_in()
    keys = kerberized.directory / "data" / "kerberos"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", kerberized.environ["KRB5_CONFIG"])
        with spnego_manager(kerberized, root) as hadoop:
            keytabs = {
                "alice": keys / "alice.keytab",
                "bob": new_keytab(hadoop, root / "bob.keytab", "bob"),
            }
            caches = {user: cache(hadoop, root, user, keytabs[user]) for user in keytabs}
            caches["the owner"] = hadoop.cache
            house = YarnHouse(root, hadoop)
            fleet = Fleet(house, hadoop, "asked")
            try:
                fleet.up(spec(house, keys / "spnego.keytab"))
                yield Scene(fleet, hadoop.door, caches)
            finally:
                house.clear()


def spec(house: YarnHouse, keytab: Path) -> str:
    """Write one of a master with the table's authorizer, which its node finds too."""
    house.environ["PYTHONPATH"] = f"{install(house.root / 'plugins', 'alices', PLUGIN)}:{TESTS}"
    return house.spec(
        "asked",
        authorizer={"use": "alices"},
        replicas={"min": 0, "max": 1, "initial": 0},
        options={"python": str(interpreter(house.root, house.environ["PYTHONPATH"]))},
        api={"spnego": {"keytab": str(keytab)}},
    )


def interpreter(folder: Path, path: str) -> Path:
    """Return this very Python, as the nodes start it: with what is on *path* installed."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return program


def cache(hadoop: Hadoop, folder: Path, user: str, keytab: Path) -> Path:
    """Return a cache with a ticket of *user*."""
    path = folder / f"{user}.cache"
    words = ["kinit", "-c", f"FILE:{path}", "-kt", str(keytab), user]
    subprocess.run(words, env=hadoop.environ, check=True, timeout=30)
    return path


@contextlib.contextmanager
def browsing(scene: Scene, user: str) -> Iterator[Page]:
    """Open a browser of *user*, who logged in, and was warned that the page is of another user."""
    environ = {**scene.fleet.house.environ, "KRB5CCNAME": f"FILE:{scene.caches[user]}"}
    shows = f"--auth-server-allowlist={scene.door.address}"
    with running_chromium(shows, environ=environ) as browser:
        context = browser.new_context()
        warned = {"name": f"checked_{scene.fleet.application_id}", "value": "true"}
        context.add_cookies([{**warned, "url": scene.door.url}])
        page = context.new_page()
        # a browser that has just begun does not know yet to whom it may show tickets
        until(
            lambda: _status(page, f"{scene.url}/dashboard") == HTTPStatus.OK, 20, "a ticket shown"
        )
        yield page


def _status(page: Page, url: str) -> int:
    answer = page.goto(url)
    return 0 if answer is None else answer.status


def sent(scene: Scene, proof: str) -> Mapping[str, str]:
    """Return what somebody brings to the proxy."""
    token = {"X-TARN-Token": scene.fleet.api_token}
    return {
        "none": dict,
        "token": lambda: token,
        "session": scene.session,
        "wrong token": lambda: WRONG,
        "SPNEGO": lambda: scene.ticket("alice"),
        "header": lambda: ALICE,
        "forged header": lambda: {**token, **ALICE, **COOKIE},
        "cookie": lambda: scene.known("alice"),
    }[proof]()


@pytest.mark.parametrize(
    "proof",
    ["none", "token", "session", "wrong token", "SPNEGO", "header", "forged header", "cookie"],
)
def test_a_row_of_the_table_through_the_real_proxy(scene: Scene, proof: str) -> None:
    """Seven answers, each by a ticket, a cookie or a claim of its own."""
    expected = {action: table()[DOOR, proof, action] for action in ACTIONS}
    whom = "bob" if expected["authorize other"] == "403" else "alice"
    found = {action: scene.asked(action, sent(scene, proof), whom) for action in ACTIONS}
    assert found == expected


def test_what_somebody_sends_beside_a_ticket_arrives_as_nothing(scene: Scene) -> None:
    """Bob stays bob, whatever name, token or cookie of alice he brings; as he is through Knox."""
    expected = {action: table()["Knox", "forged header", action] for action in ACTIONS}
    expected["model control"] = "404"  # of the master, which Knox' path does not lead to
    token = {"X-TARN-Token": scene.fleet.api_token}
    bearer = {"X-TARN-User": "alice", "X-Forwarded-User": "alice", **token}
    for claim in ({}, ALICE, COOKIE, token, {**bearer, **COOKIE}):
        found = {
            action: scene.asked(action, {**claim, **scene.ticket("bob")}) for action in ACTIONS
        }
        assert found == expected, claim


def test_forgeries_end_at_the_proxy_and_elsewhere_its_cookie_is_nothing(scene: Scene) -> None:
    """Hadoop's own ways to be somebody: a name, a signed cookie, a token, acting for others."""
    signed = 'hadoop.auth="u=alice&p=alice@TARN.TEST&t=kerberos&e=9999999999999&s=c2lnbmVk"'
    with httpx.Client(trust_env=False, timeout=30) as client:

        def status(query: str, headers: Mapping[str, str]) -> int:
            return client.get(f"{scene.url}/api/v1/status?{query}", headers=headers).status_code

        assert status("user.name=alice", {}) == 401
        assert status("", {"Cookie": signed}) == 401
        assert status("", {"X-Hadoop-Delegation-Token": "bm8gdG9rZW4"}) in {401, 403}
        assert status("doAs=alice", scene.ticket("bob")) == 403
        direct = client.get(f"{scene.fleet.url}/api/v1/status", headers=COOKIE)
        assert direct.status_code == 401


def test_the_owner_may_do_all_to_the_fleet_by_a_ticket_alone(scene: Scene) -> None:
    """The api token cannot travel through this proxy."""
    owner = {action: scene.asked(action, scene.ticket("the owner")) for action in ACTIONS}
    assert owner == {action: table()["trusted proxy", "token", action] for action in ACTIONS}


@pytest.mark.timeout(300)
def test_a_browser_shows_its_ticket_and_its_page_may_what_its_user_may(scene: Scene) -> None:
    """Nobody signs in: the ResourceManager proves who looks, and the page writes for them."""
    with browsing(scene, "the owner") as page:
        expect(page.locator("#user")).to_have_text(ME, timeout=SHOWN_MS)
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=SHOWN_MS)
        assert scene.fleet.status()["pause"]
        told = page.evaluate(RESUME, "")
        assert (told["status"], told["body"]["error"]["code"]) == (403, "TARN-3711")
        own = page.evaluate(ME_SAYS)
        assert (own["via"], own["session"]) == ("rm-proxy", None)
        assert own["direct"] == f"{scene.fleet.url}/dashboard"
        stolen = own["csrf"]

    with browsing(scene, "alice") as page:
        expect(page.locator("#user")).to_have_text("alice", timeout=SHOWN_MS)
        expect(page.locator("#cluster-title")).not_to_be_empty()
        expect(page.locator("#actions button")).to_have_count(0)
        for csrf, code in ((stolen, "TARN-3802"), (page.evaluate(ME_SAYS)["csrf"], "TARN-5000")):
            told = page.evaluate(RESUME, f"?csrf={csrf}")
            assert (told["status"], told["body"]["error"]["code"]) == (403, code)
    assert scene.fleet.status()["pause"]
    assert scene.fleet.tarn("resume")
