"""A cluster of two fakes under a real keeper and a real master, whose machine can be made poor."""

import contextlib
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from house import House, until

SHIM = Path(__file__).parent / "shim.c"
NAME = "poor"
WITHIN_S = 45.0
"""For what takes a second or two where nobody else is at work."""
CALM_S = 6.0
"""Longer than `instance.unready_after` and `instance.replace_after` of these fleets."""


class Poor(House):
    """One TARN_HOME with one cluster, asked over HTTP."""

    url = token = ""

    def up(self, **keys: Any) -> None:
        """Start the cluster, and wait until both instances are ready."""
        program = self.root / "tritonserver"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tarn.testing.fake_triton "$@"\n')
        program.chmod(0o700)
        instance = {"unready_after": "2s", "replace_after": "4s"}
        parts = {"triton": {"binary": str(program)}, "instance": instance, **keys}
        done = self.tarn("up", "-f", self.spec(NAME, **parts))
        assert done.returncode == 0, done.stderr
        self.find()
        self.reach(2)

    def find(self) -> None:
        """Learn where the newest master listens."""
        self.url = self.ref(NAME)["url"]
        self.token = (self.directory(NAME) / "api_token").read_text()

    @property
    def master(self) -> int:
        """The pid of the newest master."""
        return int(self.ref(NAME)["pid"])

    def ask(self, path: str, **body: Any) -> httpx.Response:
        """GET *path*, or PUT it with *body*; each time over a connection of its own."""
        headers = {"X-TARN-Token": self.token, "Connection": "close"}
        with httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=10) as web:
            return web.put(path, json=body) if body else web.get(path)

    def seen(self) -> dict[str, Any]:
        """Return the status; {} while the master does not answer."""
        try:
            answer = self.ask("/api/v1/status")
        except httpx.TransportError:
            return {}
        return answer.json() if answer.status_code == 200 else {}

    def ready(self) -> list[str]:
        return sorted(i["id"] for i in self.seen().get("instances", ()) if i["state"] == "ready")

    def pids(self) -> dict[str, str]:
        """Return instance to process id, of those that are ready."""
        some = self.seen().get("instances", ())
        return {i["id"]: i["container_id"] for i in some if i["state"] == "ready"}

    def reach(self, count: int) -> None:
        until(lambda: len(self.ready()) == count, WITHIN_S, lambda: str(self.seen()))

    def said(self) -> str:
        """Return what is wrong, as ``status`` has it."""
        status = self.seen()
        troubles = [" ".join(map(str, one.values())) for one in status.get("troubles", ())]
        waits = [str(i["reason"]) for i in status.get("instances", ())]
        return "\n".join(
            [*status.get("warnings", ()), *status.get("faults", ()), *troubles, *waits]
        )

    def says(self, *words: str) -> None:
        """Wait until the status has all *words*."""
        until(lambda: all(word in self.said() for word in words), WITHIN_S, self.said)

    def codes(self) -> list[str]:
        return [event["code"] for event in self.ask("/api/v1/events").json()["events"]]

    def happened(self, words: str) -> bool:
        """Say whether an event has *words*."""
        return words in self.ask("/api/v1/events").text

    def log(self) -> str:
        return (self.directory(NAME) / "logs" / "master.log").read_text(errors="replace")

    def restarted(self) -> None:
        """Wait for the next master, which the keeper starts."""
        before = self.url, self.master

        def new() -> bool:
            try:
                self.find()
            except (OSError, ValueError):
                return False
            return self.master != before[1] and bool(self.seen())

        until(new, WITHIN_S, self.log)

    def end(self) -> None:
        """Leave nothing that runs."""
        for pid, argv in self.processes(NAME).items():
            if any("keeper" in word for word in argv):
                os.kill(pid, signal.SIGKILL)
        for pid in self.processes(NAME):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def files_of(pid: int) -> set[int]:
    """Return the numbers of the files that process *pid* has open."""
    return {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def steady_files_of(pid: int, for_s: float = 1.0) -> dict[int, str]:
    """Return the number and the name of each file that process *pid* has open all the time."""
    pause, kept = threading.Event(), _named_files_of(pid)
    for _ in range(20):
        pause.wait(for_s / 20)
        now = _named_files_of(pid)
        kept = {number: name for number, name in kept.items() if now.get(number) == name}
    return kept


def _named_files_of(pid: int) -> dict[int, str]:
    named = {}
    for number in files_of(pid):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            named[number] = str(Path(f"/proc/{pid}/fd/{number}").readlink())
    return named


def allow_files(pid: int, soft: int) -> None:
    """Let process *pid* open files with numbers below *soft*."""
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


class Shim:
    """What the preloaded `shim.c` does, in every process of a cluster."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler")
        library, self._file = folder / "shim.so", folder / "shim.said"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
        subprocess.run(command, check=True)
        self.say()
        self.environ = {"LD_PRELOAD": str(library), "TARN_TEST_SHIM": str(self._file)}

    def say(self, *, refuse: bool = False, ahead_s: int = 0) -> None:
        """Refuse threads and processes from now on, or none; and set the wall clock."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("ll", refuse, ahead_s))
