"""Secrets in a keystore on HDFS: what `hadoop credential` and `tarn secrets` make, fleets get."""

import base64
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from house import until
from servers.yarn import Hadoop, YarnHouse
from yarn_fleet import Fleet

pytestmark = pytest.mark.yarn

CANARY = "hf_canary-8151 $(id) \u2603\nsecond line"


@pytest.fixture
def folder(yarn_house: YarnHouse, hadoop: Hadoop) -> Iterator[str]:
    """Make a directory on HDFS that goes with the test."""
    path = f"{yarn_house.staging}-secrets"
    hadoop.hdfs_make(path, "700")
    yield path
    hadoop.hdfs_remove(path)


def store(folder: str, **options: object) -> dict[str, Any]:
    return {"use": "jceks", "options": {"path": f"hdfs://{folder}/hf.jceks", **options}}


def put(house: YarnHouse, spec: str, name: str, value: str, **environ: str) -> str:
    file = house.root / "value"
    file.write_text(value)
    done = house.tarn("secrets", "put", name, "-f", spec, "--from", str(file), **environ)
    assert "canary-8151" not in done.stdout + done.stderr
    return done.stderr if done.returncode else ""


def credential(house: YarnHouse, *arguments: str, **environ: str) -> str:
    """Run Hadoop's own program."""
    return subprocess.run(
        [house.hadoop.directory / "bin" / "hadoop", "credential", *arguments],
        env={**house.environ, **environ},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout


def test_both_programs_write_one_keystore(yarn_house, hadoop, folder) -> None:
    """Each reads what the other made, with every password; what does not open is refused."""
    words = {"HADOOP_CREDSTORE_PASSWORD": "s3same"}
    spec = yarn_house.spec("fleet", secrets=[store(folder)])
    assert "TARN-3740" in yarn_house.tarn("secrets", "list", "-f", spec).stderr
    assert put(yarn_house, spec, "tarn.env.One", CANARY, **words) == ""
    provider = f"jceks://hdfs{folder}/hf.jceks"
    credential(yarn_house, "create", "tarn.env.two", "-value", "2", "-provider", provider, **words)
    listed = credential(yarn_house, "list", "-provider", provider, **words)
    assert {"tarn.env.one", "tarn.env.two"} <= set(listed.split())
    (yarn_house.root / "pw").write_text("s3same\n")
    by_file = store(folder, password=f"file:{yarn_house.root / 'pw'}")
    checked = yarn_house.tarn(
        "secrets", "check", "-o", "json", "-f", yarn_house.spec("by-file", secrets=[by_file])
    )
    assert {row["variable"] for row in json.loads(checked.stdout)} == {"ONE", "TWO"}
    assert "TARN-3746" not in checked.stderr, "Hadoop makes it for its owner alone"
    hadoop.hdfs_set(f"{folder}/hf.jceks", "SETPERMISSION", permission="644")
    opened = yarn_house.tarn("secrets", "list", "-f", spec, **words)
    assert opened.returncode == 0
    assert "TARN-3746" in opened.stderr
    wrong = yarn_house.tarn("up", "-f", spec)
    assert (wrong.returncode, "TARN-3742" in wrong.stderr) == (2, True), wrong.stderr
    assert "TARN-3742" in put(yarn_house, spec, "a", CANARY)
    (yarn_house.root / "x.p12").write_bytes(bytes.fromhex("308209f2020103308209b8"))
    target = f"hdfs://{folder}/hf.jceks"
    hadoop.run("hadoop", "fs", "-put", "-f", str(yarn_house.root / "x.p12"), target)
    assert "is a PKCS12 keystore" in yarn_house.tarn("up", "-f", spec).stderr
    assert not yarn_house.applications("fleet")


@pytest.mark.triton
def test_a_fleet_gets_them_through_its_launch_files_only(yarn_house, hadoop, folder) -> None:
    """Also from a master that was started again; not a file of the client or the nodes tells."""
    spec = yarn_house.spec("fleet", replicas={"min": 1, "max": 2}, secrets=[store(folder)])
    assert put(yarn_house, spec, "huggingface.token", CANARY) == ""
    fleet = Fleet(yarn_house, hadoop, "fleet")
    fleet.up(spec)
    fleet.settled(1)
    _bundled(fleet)
    hadoop.hdfs_remove(f"{folder}/hf.jceks")
    unsearched = _bundled(fleet, "unsearched")
    assert not any(name.startswith("logs/") for name in unsearched)
    assert "--unsearched-logs" in unsearched["README.txt"]
    fleet.after(fleet.kill_master())
    fleet.tarn("scale", "2")
    fleet.settled(2)
    tritons = until(lambda: len(found := fleet.tritons()) == 2 and found, 20, "two Tritons")
    for pid in tritons.values():
        assert f"HF_TOKEN={CANARY}".encode() in _environ(pid).split(b"\0")
    seen = b"".join(_environ(pid) + _argv(pid) for pid in (fleet.master(), *tritons.values()))
    for pid in tritons.values():
        seen = seen.replace(_environ(pid), b"")
    nodes = hadoop.directory / "data"
    files = [
        one for one in nodes.rglob("*") if one.name.startswith(("launch_container", "default_con"))
    ]
    assert files, "a check that looks at nothing is none"
    logs = [one for one in nodes.rglob("*") if one.name in {"stderr", "stdout", "master.log"}]
    kept = [one for one in yarn_house.home.rglob("*") if one.is_file()]
    for one in (*files, *logs, *kept):
        seen += one.read_bytes()
    seen += fleet.tarn("status", "-o", "json").encode() + fleet.tarn("events").encode()
    seen += "\n".join(hadoop.hdfs_listing(yarn_house.staging)).encode()
    assert b"secrets.json" not in seen
    for form in (CANARY, quote(CANARY), base64.b64encode(CANARY.encode()).decode()):
        assert form.encode() not in seen
    assert b"canary-8151" not in seen
    fleet.down()


def _bundled(fleet: Fleet, name: str = "bundle") -> dict[str, str]:
    """Return the files of a support bundle; the logs are there while the secrets are known."""
    path = fleet.house.root / f"{name}.tar.gz"
    fleet.tarn("support-bundle", "-o", str(path), "--without", "doctor")
    with tarfile.open(path) as tar:
        members = {m.name.partition("/")[2]: tar.extractfile(m) for m in tar}
        files = {name: held.read().decode() for name, held in members.items() if held}
    whole = "".join(files.values())
    assert "canary-8151" not in whole
    assert fleet.house.hadoop.host("nm1") not in whole
    if name == "bundle":
        assert "tarn_target_containers 1" in files["cluster/metrics.txt"]
        assert "server_id" in files["logs/fleet-0001.log"]
        assert files["logs/master.log"].strip()
        assert "Hadoop" in files["machine/hadoop.txt"]
    return files


def _environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _argv(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
