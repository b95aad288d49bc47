"""A home of its own for a test: clusters in it, the command line, and nothing left after it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarn.errors import TarnError
from tarn.follow import MasterApi
from tarn.process_table import environment_of

MODELS = Path(__file__).parent / "models"


class House:
    """One TARN_HOME."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        self.root = root
        self.python = python
        self.home = root / "home"
        self.environ = {
            **os.environ,  # noqa: TID251
            "TARN_HOME": str(self.home),
            "COLUMNS": "200",
        }

    def tarn(
        self, *arguments: str, timeout_s: float = 90, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``tarn`` as a user does."""
        return subprocess.run(
            [self.python, "-m", "tarn", *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.root,
            env={**self.environ, **environ},
            timeout=timeout_s,
        )

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start ``tarn`` and go on."""
        return subprocess.Popen(
            [self.python, "-m", "tarn", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env={**self.environ, **environ},
        )

    def spec(self, name: str, **keys: Any) -> str:
        """Write a ``tarn.yaml`` for the echo model; return its path."""
        plain = {
            "name": name,
            "models": {"repository": str(MODELS), "serve": ["echo"]},
            "replicas": {"min": 1, "max": 4, "initial": 2},
            "drain": {"timeout": "30s", "quiesce": "500ms"},
            **keys,
        }
        path = self.root / f"{name}.yaml"
        path.write_text(yaml.safe_dump(plain))
        return str(path)

    def directory(self, name: str) -> Path:
        return self.home / "clusters" / name

    def status(self, name: str) -> dict[str, Any]:
        """Return what ``tarn status -o json`` prints; a master that answers is asked directly.

        The command costs most of a second of a core, and who waits for a state looks often. It
        decides wherever the address and the token in the home do not lead to a master.
        """
        status = self.direct_status(name)
        if status is not None:
            return status
        done = self.tarn("status", "-c", name, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def answered(self, name: str) -> dict[str, Any] | None:
        """Return the status, or None while no master answers."""
        try:
            return fresh(self.status(name))
        except AssertionError:
            return None

    def direct_status(self, name: str) -> dict[str, Any] | None:
        """Return the status from the master that the home knows; None if it does not answer."""
        try:
            url = str(self.ref(name)["url"])
            token = (self.directory(name) / "api_token").read_text().strip()
        except (OSError, ValueError, KeyError):
            return None
        if not url.startswith("http://") or not token:
            return None  # whom to trust, and who asks, is for the command to know
        with contextlib.suppress(TarnError), MasterApi(url, token) as api:
            return dict(api.status())
        return None

    def ref(self, name: str) -> dict[str, Any]:
        return json.loads((self.directory(name) / "ref.json").read_text())

    def processes(self, name: str) -> dict[int, list[str]]:
        """Return the processes that carry this cluster's directory: pid to argv."""
        found = {}
        mark = f"TARN_CLUSTER_DIR={self.directory(name)}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
                environ = environment_of(int(entry.name))
            except OSError:
                continue
            if mark in environ or str(self.directory(name)).encode() in argv:
                found[int(entry.name)] = [a.decode() for a in argv if a]
        return found

    def tritons(self, name: str) -> set[int]:
        """Return the pids of the Triton servers themselves."""
        return {
            pid
            for pid, argv in self.processes(name).items()
            if any("--model-repository" in a for a in argv) and "stub" not in argv[0]
        }


def until(
    true: Callable[[], Any],
    within_s: float,
    what: str | Callable[[], str] = "it",
    pause_s: float = 0.05,
) -> Any:
    """Return the first true answer of *true*; fail when there is none in time.

    Args:
        true: Asked again and again.
        within_s: For how long.
        what: What is waited for; one that is called tells what was seen last, too.
        pause_s: Between two questions; longer where a question takes longer.
    """
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while True:
        asked_s = time.monotonic()
        if answer := true():
            return answer
        if (now_s := time.monotonic()) > end_s:
            said = what if isinstance(what, str) else what()
            pytest.fail(f"{said} did not come true within {within_s:g} s")
        # A question may be a whole `tarn`: half of the time is for what is waited for.
        pause.wait(max(pause_s, now_s - asked_s))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    yield one
    clear(one)


def _left(one: House, names: list[str], within_s: float = 10.0) -> dict[str, dict[int, list[str]]]:
    """Return what still runs of each cluster; a master that was told to end may take a moment."""
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while True:
        left = {name: one.processes(name) for name in names}
        if not any(left.values()) or time.monotonic() > end_s:
            return left
        pause.wait(0.05)


def clear(one: House) -> None:
    """End everything that runs in the house; what does not end is a failure."""
    clusters = one.home / "clusters"
    names = [path.name for path in clusters.iterdir()] if clusters.is_dir() else []
    for name in names:
        for pid in one.processes(name):
            _continue(pid)
        one.tarn("down", "-c", name, "--timeout", "60s")
    left = _left(one, names)
    for pids in left.values():
        for pid in pids:
            _kill(pid)
    assert not any(left.values()), f"left running: {left}"


def _continue(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to one process that this test's fleet started."""
    os.kill(pid, number)


def fresh(status: dict[str, Any]) -> dict[str, Any] | None:
    """Return *status* if a master that is in control says it."""
    return status if "instances" in status and not status.get("stale") else None


def ids(status: Mapping[str, Any], state: str = "ready") -> set[str]:
    """Return the ids of the instances in *state*; a suspect one is not ready."""
    return {i["id"] for i in status["instances"] if i["state"] == state and not i["suspect"]}
