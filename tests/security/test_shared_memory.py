"""What requests say passes through shared memory: no other user reads it, at any moment."""

import contextlib
import json
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from asking import ask
from local_runtime import MODELS, LocalRuntimeHome, eventually, fact
from servers.triton import backends, needed

from tarn.domain import Running
from tarn.triton.binary import find_wheel
from tarn_plugins.runtime.local.files import Records
from tarn_plugins.runtime.local.machine import processes_of

pytestmark = [
    *needed,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("setpriv") is None,
        reason="needs root and setpriv, to be another user",
    ),
]
ID = "echo-0001"
VALUES = [1357.25, -2468.5, 97531.75, 8642.125]
CANARY = struct.pack("<4f", *VALUES)
SPY = """
import glob, os, select, sys
canary, prefix = bytes.fromhex(sys.argv[1]), sys.argv[2]
print("looks", os.geteuid(), flush=True)
opened = found = 0
held = {}
while True:
    for path in glob.glob("/dev/shm/" + prefix + "*"):
        if path not in held:
            try:
                held[path] = open(path, "rb", buffering=0)
                opened += 1
            except OSError:
                pass
    for file in held.values():
        file.seek(0)
        found += canary in file.read()
    if select.select([0], [], [], 0.002)[0]:
        break
print(found, flush=True)
"""
"""Another user, who opens whatever may be opened as soon as it is there, and reads it for ever."""


@contextlib.contextmanager
def spied(prefix: str) -> Iterator[None]:
    """Have another user look for the canary meanwhile."""
    command = ["setpriv", "--reuid=65001", "--regid=65001", "--clear-groups", "--no-new-privs"]
    command += ["/usr/bin/env", "python3", "-IS", "-c", SPY, CANARY.hex(), prefix]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as spy:
        try:
            assert spy.stdout.readline() == "looks 65001\n"
            yield
            found, _ = spy.communicate("\n", timeout=20)
            assert found == "0\n"
        finally:
            spy.kill()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[LocalRuntimeHome]:
    one = LocalRuntimeHome(tmp_path / "home", tmp_path / "cache")
    yield one
    one.end()


def wheels_own(tmp_path: Path) -> dict[str, object]:
    """Return the settings for a tritonserver that TARN finds, with a back end of its own."""
    wheel = find_wheel()
    assert wheel is not None
    program = tmp_path / "their-tritonserver"
    folder = backends(tmp_path / "theirs", wheel.package / "tritonserver")
    program.write_text(
        f"#!/bin/sh\nexport LD_LIBRARY_PATH={wheel.libraries}\n"
        f'exec {wheel.server} "$@" --backend-directory={folder}\n'
    )
    program.chmod(0o755)
    return {"binary": str(program)}


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_no_other_user_reads_what_requests_say(
    stage: LocalRuntimeHome, tmp_path: Path, whose: str
) -> None:
    """Not after a start, an explicit load, a reload, or the end of a stub that was replaced."""
    runtime = stage.master(**(wheels_own(tmp_path) if whose == "theirs" else {}))
    runtime.start("http://127.0.0.1:1")
    models = tmp_path / "models"
    for name in ("echo", "second"):
        shutil.copytree(MODELS / "echo", models / name)
        config = models / name / "config.pbtxt"
        config.write_text(config.read_text().replace('"echo"', f'"{name}"'))
    served = attrs.evolve(stage.launch.models, control="explicit", serve=("echo",))
    triton = attrs.evolve(stage.launch.triton, restricted=())
    stage.launch = attrs.evolve(
        stage.launch, models=served, triton=triton, repository=str(models), keys=None
    )
    with spied("tarn_"):
        runtime.apply(stage.wish(ID))
        running = fact(runtime, ID, Running)
        assert running is not None, runtime.facts()
        port = running.endpoint.http_port
        serves(port, "echo")
        (record,), _ = Records(stage.directory / "instances").read()
        kept = [p.read_bytes() for p in Path("/dev/shm").glob(f"{record.shm_prefix}*")]
        assert any(CANARY in region for region in kept), "the test would see nothing"
        assert ask(port, "POST", "/v2/repository/models/second/load", b"{}")[0] == 200
        serves(port, "second")
        assert ask(port, "POST", "/v2/repository/models/echo/load", b"{}")[0] == 200
        serves(port, "echo")
        stubs = [p.pid for p in processes_of(stage.directory) if not p.leader]
        os.kill(stubs[0], signal.SIGKILL)
        for name in ("echo", "second"):  # a load alone keeps what is loaded, with its dead stub
            for step in ("unload", "load"):
                assert ask(port, "POST", f"/v2/repository/models/{name}/{step}", b"{}")[0] == 200
            serves(port, name)
        regions = Path("/dev/shm").glob(f"{record.shm_prefix}*")
        assert {region.stat().st_mode & 0o777 for region in regions} == {0o600}


def serves(port: int, model: str) -> None:
    """Wait until the model answers, and let some more requests through its memory."""
    body = {"inputs": [{"name": "IN", "shape": [4], "datatype": "FP32", "data": VALUES}]}
    sent = json.dumps(body).encode()

    def answered() -> bool:
        try:
            return ask(port, "POST", f"/v2/models/{model}/infer", sent)[0] == 200
        except OSError:
            return False

    eventually(answered, 60.0)
    for _ in range(20):
        answered()
