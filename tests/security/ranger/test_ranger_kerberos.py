"""Ranger Admin of a Kerberized site gives policies to who has a ticket, and to nobody else."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gssapi
import pytest
from servers.kerberos import REALM, KerberosRealm
from servers.ranger import POLICIES, PolicyServer, site

PLUGIN = "ranger.plugin.triton.ugi"


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KerberosRealm]:
    (tmp_path / "kdc").mkdir()
    one = KerberosRealm(tmp_path / "kdc")
    one.start()
    monkeypatch.setenv("KRB5_CONFIG", one.environ["KRB5_CONFIG"])
    yield one
    one.stop()


def test_a_keytab_of_the_site_opens_ranger_admin(kdc: KerberosRealm, tmp_path: Path) -> None:
    """It logs in next to whatever else the JVM does; without a login everything is denied."""
    mine = kdc.keytab("tarn", "tarn/localhost")
    service = kdc.keytab("http", "HTTP/localhost")
    proven: list[str] = []

    def proves(header: str) -> bool:
        kind, _, token = header.partition(" ")
        if kind != "Negotiate":
            return False
        held = gssapi.Credentials(usage="accept", store={"keytab": str(service)})
        context = gssapi.SecurityContext(creds=held, usage="accept")
        context.step(base64.b64decode(token))
        proven.append(str(context.initiator_name))
        return bool(context.complete)

    with PolicyServer(POLICIES) as stage:
        stage.proves = proves
        url = f"http://localhost:{stage.port}"
        site(tmp_path / "site", url, audit=False)
        said = asked(tmp_path)
        assert said["allowed"] == [False, False]
        assert not said["ready"]
        assert "401" in said["reason"]
        assert not proven
        login = {
            f"{PLUGIN}.initialize": "true",
            f"{PLUGIN}.login.type": "keytab",
            f"{PLUGIN}.keytab.principal": f"tarn/localhost@{REALM}",
            f"{PLUGIN}.keytab.file": str(mine),
        }
        site(tmp_path / "site", url, audit=False, also=login)
        (tmp_path / "site" / "core-site.xml").write_text(
            "<configuration><property><name>hadoop.security.authentication</name>"
            "<value>kerberos</value></property></configuration>"
        )
        assert asked(tmp_path) == {"allowed": [True, False], "ready": True, "reason": ""}
    assert set(proven) == {f"tarn/localhost@{REALM}"}


def asked(folder: Path) -> dict[str, Any]:
    """Ask in a process of its own: where the KDC is, is known to a whole JVM."""
    program = [sys.executable, str(Path(__file__).with_name("asks_with_a_keytab.py")), str(folder)]
    environ = {**os.environ}  # noqa: TID251 (a program of this test)
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=120, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
