"""YARN's web proxy as a process of its own, which asks its users for a ticket of Kerberos.

It has an address of this machine that is no loopback address: from one of those every process of a
node speaks, and a master believes no cookie from there.
"""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from house import until
from yarn_stage import Hadoop

from tarn_plugins.cli.sandbox.daemons import java_command
from tarn_plugins.cli.sandbox.kerberos import with_sbin
from tarn_plugins.cli.sandbox.security import REALM

MAIN = "org.apache.hadoop.yarn.server.webproxy.WebAppProxyServer"
NOWHERE = "198.51.100.1"
"""For documentation (RFC 5737): nothing is ever sent there."""
WITHIN_S = 60.0


@attrs.frozen
class WebProxy:
    """One that runs."""

    address: str
    port: int
    environ: dict[str, str]
    """Of clients whose configuration names this proxy."""

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"


def own_address() -> str:
    """Return an address of this machine that others reach; skip the test where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect((NOWHERE, 9))
        except OSError:
            pytest.skip("this machine has loopback addresses only")
        return str(one.getsockname()[0])


@contextlib.contextmanager
def web_proxy(hadoop: Hadoop, folder: Path) -> Iterator[WebProxy]:
    """Run one beside a Kerberized sandbox, which knows nothing of it."""
    address = own_address()
    with socket.socket() as free:
        free.bind((address, 0))
        port = int(free.getsockname()[1])
    keytab = new_keytab(hadoop, folder / "web.keytab", f"HTTP/{address}")
    named = {"yarn.web-proxy.address": f"{address}:{port}"}
    secret = folder / "secret"
    secret.write_text("signs the cookies of this proxy")
    _configured(hadoop, hadoop.directory / "etc" / "proxy", named | _own(hadoop, keytab, secret))
    clients = folder / "clients"
    shutil.copytree(hadoop.directory / "etc" / "hadoop", clients)
    _configured(hadoop, clients, named)
    with _running(hadoop, folder / "proxy.log", (address, port)):
        yield WebProxy(address, port, {**hadoop.environ, "HADOOP_CONF_DIR": str(clients)})


def new_keytab(hadoop: Hadoop, path: Path, principal: str) -> Path:
    """Make *principal* in the sandbox's realm; return its keytab."""
    etc = hadoop.directory / "etc" / "kerberos"
    profile = {"KRB5_KDC_PROFILE": str(etc / "kdc.conf"), "KRB5_CONFIG": str(etc / "krb5.conf")}
    told = f"addprinc -randkey {principal}\nktadd -norandkey -k {path} {principal}\n"
    subprocess.run(
        ["kadmin.local", "-r", REALM],
        env={**with_sbin(hadoop.environ), **profile},
        input=told,
        text=True,
        check=True,
        capture_output=True,
        timeout=30,
    )
    assert path.exists()
    return path


def _own(hadoop: Hadoop, keytab: Path, secret: Path) -> dict[str, str]:
    keys = hadoop.directory / "data" / "kerberos" / "yarn.keytab"
    web = f"HTTP/{own_address()}@{REALM}"
    return {
        "yarn.web-proxy.principal": f"yarn/{hadoop.host('rm')}@{REALM}",
        "yarn.web-proxy.keytab": str(keys),
        "hadoop.http.filter.initializers": (
            "org.apache.hadoop.security.AuthenticationFilterInitializer"
        ),
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": web,
        "hadoop.http.authentication.kerberos.keytab": str(keytab),
        "hadoop.http.authentication.signature.secret.file": str(secret),
    }


def _configured(hadoop: Hadoop, folder: Path, properties: dict[str, str]) -> None:
    """Write the sandbox's ``yarn-site.xml`` into *folder*, with *properties* beside."""
    text = (hadoop.directory / "etc" / "hadoop" / "yarn-site.xml").read_text()
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in properties.items()
    )
    folder.mkdir(exist_ok=True)
    (folder / "yarn-site.xml").write_text(
        text.replace("</configuration>", rows + "</configuration>")
    )


@contextlib.contextmanager
def _running(hadoop: Hadoop, log: Path, place: tuple[str, int]) -> Iterator[None]:
    environ, directory = hadoop.environ, str(hadoop.directory)
    realm = f"-Djava.security.krb5.conf={environ['KRB5_CONFIG']}"
    flags = ("-Xmx128m", "-Dhadoop.root.logger=INFO,console", realm)
    java = str(Path(environ["JAVA_HOME"]) / "bin" / "java")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*java_command(java, directory, "proxy", flags), MAIN],
            env=environ,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: process.poll() is not None or _listens(place), WITHIN_S, "the web proxy")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.kill()
        process.wait(10)


def _listens(place: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(place, 1):
        return True
    return False
