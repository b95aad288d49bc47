"""A cluster whose master speaks HTTPS only, from `up` to `down`, as a user has it."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
import yaml
from certificates import Authority
from house import House, until

TOKEN = "sesame-open-canary-0123456789"
ONE = {"min": 1, "max": 1, "initial": 1}


@pytest.mark.triton
def test_everything_goes_over_https(house: House, tmp_path: Path) -> None:
    """`up` with a token among its arguments, status, a master that was killed, `down`.

    The token stands in no argument that others see, the private key in no file that they read, and
    a plain request gets no answer but what the port speaks.
    """
    authority = Authority(tmp_path / "pki")
    own = authority.issue("master", ("localhost",))  # and not for 127.0.0.1
    tls = {"cert": str(own.cert), "key": str(own.key), "ca": str(authority.ca)}
    path = house.spec("w", replicas=ONE, api={"tls": tls})
    up = house.start("up", "-f", path, "--token", TOKEN)
    seen: set[str] = set()
    watching = threading.Thread(target=_watch, args=(up, seen))
    watching.start()
    _, said = up.communicate(timeout=120)
    watching.join()
    assert up.returncode == 0, said
    assert any("****" in line for line in seen), "it was looked at too late"
    ref = house.ref("w")
    assert ref["url"].startswith("https://localhost:")
    directory = house.directory("w")
    assert (directory / "api_token").read_text() == TOKEN
    assert (directory / "tls_ca.pem").read_bytes().strip() == authority.ca.read_bytes().strip()
    for file in ("tls.pem", "api_token"):
        assert (directory / file).stat().st_mode & 0o777 == 0o600
    for pid, argv in house.processes("w").items():
        assert "sesame" not in " ".join(argv)
        assert b"sesame" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert b"PRIVATE KEY" not in (directory / "logs" / "master.log").read_bytes()
    plain = httpx.get(ref["url"].replace("https:", "http:") + "/health", trust_env=False)
    assert plain.status_code == 400
    assert house.status("w")["ready"] == 1
    _another_master(house, ref)
    done = house.tarn("down", "-c", "w")
    assert done.returncode == 0, done.stderr
    assert not (directory / "tls.pem").exists()


def _watch(process: "subprocess.Popen[str]", seen: set[str]) -> None:
    """Look at the command line of *process*, as every user can, once it had time to start."""
    pause, begin_s = threading.Event(), time.monotonic()
    while process.poll() is None:
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_text()
        except OSError:
            return
        if time.monotonic() - begin_s > 2:
            assert "sesame" not in line
            seen.add(line)
        pause.wait(0.05)


def _another_master(house: House, ref: dict[str, object]) -> None:
    """After a kill the next one serves with the same certificate."""
    os.kill(int(str(ref["pid"])), 9)
    until(lambda: house.ref("w")["epoch"] != ref["epoch"], 30, "another master")
    until(lambda: house.status("w")["ready"] == 1, 30, "the instance")
    assert house.ref("w")["url"].startswith("https://localhost:")


def test_a_wrong_certificate_starts_nothing(house: House, tmp_path: Path) -> None:
    """Everything that is wrong with it, one line each, and no file is left."""
    late = Authority(tmp_path / "pki").issue("late", ("gpu1",), days=(-9, -1))
    tls = {"cert": str(late.cert), "key": str(late.key), "client_ca": str(tmp_path / "gone")}
    path = house.spec("w", replicas=ONE, api={"tls": tls})
    done = house.tarn("up", "-f", path)
    assert done.returncode == 2
    for code in ("TARN-3720", "TARN-3723", "TARN-3727"):
        assert f"[{code}]" in done.stderr
    assert not (house.directory("w") / "ref.json").exists()
    assert house.processes("w") == {}


def test_a_spec_without_a_certificate_is_a_contradiction(house: House) -> None:
    """`tls: {}` never means plain HTTP."""
    spec = yaml.safe_load(Path(house.spec("w")).read_text())
    path = house.root / "w.yaml"
    for tls in ({}, {"cert": "c.pem", "keystore": "k.jks"}):
        path.write_text(json.dumps({**spec, "api": {"tls": tls}}))
        done = house.tarn("up", "-f", str(path))
        assert done.returncode == 2
        assert "TARN-2003" in done.stderr
        assert "api.tls" in done.stderr
