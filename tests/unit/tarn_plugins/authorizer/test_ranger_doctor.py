"""What `tarn doctor` says of Ranger: files, jars, and whether Ranger Admin can be reached."""

import socket
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import Choice
from tarn.interfaces import CheckResult
from tarn.testing.context import client_context, cluster_spec
from tarn_plugins.authorizer.ranger import site as site_files
from tarn_plugins.authorizer.ranger import tarn_doctor_checks

URL = "ranger.plugin.triton.policy.rest.url"


def looked(folder: Path, url: str | None, runtime: str = "local") -> list[CheckResult]:
    options: dict[str, Any] = {
        "service": "s",
        "audit": False,
        "conf_dir": str(folder),
        "jars": [str(folder / "ranger-plugins-common.jar")],
    }
    (folder / "ranger-plugins-common.jar").touch()
    if url is not None:
        (folder / "ranger-triton-security.xml").write_bytes(
            site_files.render_properties({URL: url})
        )
    spec = attrs.evolve(
        cluster_spec(),
        authorizer=Choice("ranger", options),
        runtime=attrs.evolve(cluster_spec().runtime, use=runtime),
    )
    return [check.look() for check in tarn_doctor_checks(spec)]


def test_a_server_that_listens_is_reached_and_one_that_does_not_is_named(tmp_path: Path) -> None:
    """Each of several is asked; away is a warning, since a cache may do."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        up = f"http://127.0.0.1:{server.getsockname()[1]}"
        files, admin = looked(tmp_path, up)
        assert not files.findings
        assert not admin.findings
        assert up in admin.seen
        _, admin = looked(tmp_path, f"{up},http://127.0.0.1:9")
    (finding,) = admin.findings
    assert finding.code == "TARN-3406"
    assert "127.0.0.1:9" in finding.found
    assert not finding.fatal


def test_what_is_missing_is_found_where_the_master_will_run(tmp_path: Path) -> None:
    """On another machine it is not known from here."""
    files, admin = looked(tmp_path, None)
    assert [one.code for one in files.findings] == ["TARN-3400"]
    assert not admin.known
    files, _ = looked(tmp_path, None, runtime="yarn")
    assert not files.findings
    assert not files.known
    (tmp_path / "ranger-triton-security.xml").write_bytes(
        site_files.render_properties({URL: "http://r:1"})
    )
    files, _ = looked(tmp_path, "http://127.0.0.1:9", runtime="yarn")
    assert files.known
    assert "each node" in files.seen


def test_other_authorizers_are_none_of_its_business(tmp_path: Path) -> None:
    """Nor are options that nobody can read."""
    client_context(tmp_path)
    assert tuple(tarn_doctor_checks(cluster_spec())) == ()
    wrong = attrs.evolve(cluster_spec(), authorizer=Choice("ranger", {"service": 3}))
    assert tuple(tarn_doctor_checks(wrong)) == ()
