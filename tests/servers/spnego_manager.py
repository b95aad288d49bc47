"""A ResourceManager whose web pages, and so its proxy, ask their users for a ticket of Kerberos.

They are not at a loopback address: every process of a node speaks from one of those, and a master
believes no cookie from there.
"""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from servers.yarn import Hadoop, context
from tarn.errors import UnreachableError
from tarn_plugins.cli.sandbox.kerberos import REALM, with_sbin
from tarn_plugins.cli.sandbox.rest import ResourceManagers

__all__ = ["ManagerPages", "new_keytab", "spnego_manager"]

NOWHERE = "198.51.100.1"
"""For documentation (RFC 5737): nothing is ever sent there."""
SITE = "yarn-site.xml"


@attrs.frozen
class ManagerPages:
    """Where the pages are."""

    address: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    def ticket(self, cache: Path) -> dict[str, str]:
        """Return a fresh ticket for them, as a header, of whoever logged in to *cache*."""
        from security.tickets import Caller  # noqa: PLC0415 (it finds the realm by the environment)

        return Caller(cache, f"HTTP@{self.address}").header()


class Negotiating(ResourceManagers):
    """The REST API of a ResourceManager that believes tickets alone."""

    def __init__(self, door: ManagerPages, cache: Path) -> None:
        super().__init__([door.address], door.port, "")
        self._door, self._cache = door, cache

    def get(self, path: str, **query: str) -> Any:
        return self._ask("GET", path, params=query)

    def put(self, path: str, body: Any) -> Any:
        return self._ask("PUT", path, json=body)

    def _ask(self, method: str, path: str, **words: Any) -> Any:
        url = f"{self._door.url}/ws/v1/cluster/{path}"
        headers = {**self._door.ticket(self._cache), "Accept": "application/json"}
        with httpx.Client(trust_env=False, headers=headers, timeout=10) as client:
            try:
                return client.request(method, url, **words).raise_for_status().json()
            except (httpx.HTTPError, ValueError) as error:
                raise UnreachableError(f"{method} failed: {error}", where=url) from error


class Closed(Hadoop):
    """A sandbox whose ResourceManager's pages are closed; its clients know where they are."""

    def __init__(self, hadoop: Hadoop, door: ManagerPages, clients: Path) -> None:
        super().__init__(hadoop.directory, context())
        self.door, self._clients = door, clients

    @property
    def cache(self) -> Path:
        """Where the ticket of the user is, who started everything."""
        return Path(super().environ["KRB5CCNAME"].removeprefix("FILE:"))

    @property
    def rest(self) -> ResourceManagers:
        return Negotiating(self.door, self.cache)

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "HADOOP_CONF_DIR": str(self._clients)}


@contextlib.contextmanager
def spnego_manager(hadoop: Hadoop, folder: Path) -> Iterator[Closed]:
    """Have the ResourceManager of a Kerberized sandbox close its pages; at the end it is as before.

    KRB5_CONFIG of this process must be the sandbox's.
    """
    door = _door()
    keytab = new_keytab(hadoop, folder / "web.keytab", f"HTTP/{door.address}")
    secret = folder / "secret"
    secret.write_text("signs the cookies of these pages")
    place = {"yarn.resourcemanager.webapp.address": f"{door.address}:{door.port}"}
    clients, own = folder / "clients", hadoop.directory / "etc" / "rm" / SITE
    shutil.copytree(hadoop.directory / "etc" / "hadoop", clients)
    (clients / SITE).write_text(_with((clients / SITE).read_text(), place))
    before = own.read_text()
    closed = Closed(hadoop, door, clients)
    try:
        _again(closed, own, _with(before, {**place, **_proven_at(door, keytab, secret)}))
        yield closed
    finally:
        _again(hadoop, own, before)


def new_keytab(hadoop: Hadoop, path: Path, principal: str) -> Path:
    """Make *principal* in the sandbox's realm; return its keytab."""
    profile = hadoop.directory / "etc" / "kerberos" / "kdc.conf"
    told = f"addprinc -randkey {principal}\nktadd -norandkey -k {path} {principal}\n"
    subprocess.run(
        ["kadmin.local", "-r", REALM],
        env={**with_sbin(hadoop.environ), "KRB5_KDC_PROFILE": str(profile)},
        input=told,
        text=True,
        check=True,
        capture_output=True,
        timeout=30,
    )
    assert path.exists()
    return path


def _door() -> ManagerPages:
    """Return a free one at an address that others reach; skip the test where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect((NOWHERE, 9))
        except OSError:
            pytest.skip("this machine has loopback addresses only")
        address = str(one.getsockname()[0])
    with socket.socket() as free:
        free.bind((address, 0))
        return ManagerPages(address, int(free.getsockname()[1]))


def _proven_at(door: ManagerPages, keytab: Path, secret: Path) -> dict[str, str]:
    kind = "hadoop.http.authentication"
    return {
        f"{kind}.type": "kerberos",
        f"{kind}.kerberos.principal": f"HTTP/{door.address}@{REALM}",
        f"{kind}.kerberos.keytab": str(keytab),
        f"{kind}.signature.secret.file": str(secret),
    }


def _with(site: str, properties: dict[str, str]) -> str:
    """Return *site* with *properties*: of two with one name the last counts."""
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in properties.items()
    )
    return site.replace("</configuration>", f"{rows}</configuration>")


def _again(hadoop: Hadoop, site: Path, text: str) -> None:
    site.write_text(text)
    hadoop.kill("rm")
    hadoop.start("rm")
    hadoop.wait_nodes(hadoop.options.nodes)
