"""The rows of the ResourceManager's proxy in the table of who may what, through the real one.

A master on a Kerberized YARN, and before it YARN's own web proxy, which authenticates its users by
SPNEGO and names them in its cookie.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import httpx
import pytest
from security.asking import ask
from security.truth import table
from stranger import install
from web_proxy_stage import WebProxy, new_keytab, web_proxy
from yarn_fleet import Fleet
from yarn_stage import Hadoop, YarnHouse

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.xdist_group("kerberos")]

DOOR = "RM proxy"
TESTS = Path(__file__).parents[1]
ALICE = {"X-TARN-User": "alice"}
WRONG = {"X-TARN-Token": "a-token-that-is-nobody-s"}
ACTIONS = tuple(dict.fromkeys(action for _, _, action in table()))
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
    proxy: WebProxy
    caches: Mapping[str, Path]

    @property
    def url(self) -> str:
        return f"{self.proxy.url}/proxy/{self.fleet.application_id}"

    def ticket(self, user: str) -> Mapping[str, str]:
        """Return a fresh ticket of *user* for the proxy."""
        from security.tickets import Caller  # noqa: PLC0415 (it finds the realm by the environment)

        return Caller(self.caches[user], f"HTTP@{self.proxy.address}").header()

    def asked(self, action: str, headers: Mapping[str, str], whom: str = "alice") -> str:
        """Ask through the proxy, as somebody who was warned that the page is of another user."""
        seen = f"checked_{self.fleet.application_id}=true"
        cookies = "; ".join(filter(None, (seen, headers.get("Cookie"))))
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as client:
            return ask(client, action, {**headers, "Cookie": cookies}, whom)

    def known(self, user: str) -> Mapping[str, str]:
        """Return the proxy's own cookie for *user*, who shows a ticket once."""
        said = httpx.get(f"{self.proxy.url}/conf", headers=self.ticket(user), trust_env=False)
        assert said.status_code == 200
        return {"Cookie": f"hadoop.auth={said.cookies['hadoop.auth']}"}


@pytest.fixture(scope="module")
def scene(kerberized: Hadoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Bring up a master that has no instance to care for: it is asked who may what."""
    root = tmp_path_factory.mktemp("matrix")
    kerberized.log_in()
    keys = kerberized.directory / "data" / "kerberos"
    keytabs = {
        "alice": keys / "alice.keytab",
        "bob": new_keytab(kerberized, root / "bob.keytab", "bob"),
    }
    with pytest.MonkeyPatch.context() as patch, web_proxy(kerberized, root) as proxy:
        patch.setenv("KRB5_CONFIG", kerberized.environ["KRB5_CONFIG"])
        house = YarnHouse(root, kerberized)
        house.environ |= proxy.environ
        house.environ["PYTHONPATH"] = f"{install(root / 'plugins', 'alices', PLUGIN)}:{TESTS}"
        spec = house.spec(
            "asked",
            authorizer={"use": "alices"},
            replicas={"min": 0, "max": 1, "initial": 0},
            options={"python": str(interpreter(root, house.environ["PYTHONPATH"]))},
            api={"spnego": {"keytab": str(keys / "spnego.keytab")}},
        )
        fleet = Fleet(house, kerberized, "asked")
        try:
            fleet.up(spec)
            yield Scene(
                fleet, proxy, {who: cache(kerberized, root, who, keytabs[who]) for who in keytabs}
            )
        finally:
            kerberized.log_in()
            house.clear()


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


def sent(scene: Scene, proof: str) -> Mapping[str, str]:
    """Return what somebody brings to the proxy."""
    token = {"X-TARN-Token": scene.fleet.api_token}
    return {
        "none": dict,
        "token": lambda: token,
        "wrong token": lambda: WRONG,
        "SPNEGO": lambda: scene.ticket("alice"),
        "header": lambda: ALICE,
        "forged header": lambda: {**token, **ALICE, "Cookie": "proxy-user=alice"},
        "cookie": lambda: scene.known("alice"),
    }[proof]()


@pytest.mark.parametrize(
    "proof", ["none", "token", "wrong token", "SPNEGO", "header", "forged header", "cookie"]
)
def test_a_row_of_the_table_through_the_real_proxy(scene: Scene, proof: str) -> None:
    """Seven answers, each by a ticket, a cookie or a claim of its own."""
    expected = {action: table()[DOOR, proof, action] for action in ACTIONS}
    whom = "bob" if expected["authorize other"] == "403" else "alice"
    found = {action: scene.asked(action, sent(scene, proof), whom) for action in ACTIONS}
    assert found == expected
