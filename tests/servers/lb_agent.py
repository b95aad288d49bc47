"""``tarn lb haproxy`` next to a HAProxy, as a user starts it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from house import House, until


class AgentProcess:
    """``tarn lb haproxy`` as a user starts it; what it says is in a file.

    Args:
        house: Its home, and where it stands.
        options: Of the verb; or those of another *program*, which becomes that verb.
        program: None: ``tarn lb haproxy``.
        environ: Added to the house's.
    """

    def __init__(
        self, house: House, *options: str, program: Path | None = None, **environ: str
    ) -> None:
        verb = [house.python, "-m", "tarn", "lb", "haproxy"]
        self.log = house.root / f"agent-{len(list(house.root.glob('agent-*.log')))}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*([str(program)] if program else verb), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=house.root,
                env={**house.environ, **environ},
            )

    def said(self) -> str:
        """Return what it said so far."""
        return self.log.read_text()

    def heard(self, text: str, within_s: float = 30.0) -> None:
        """Wait until it says *text*."""

        def there() -> bool:
            assert text in self.said() or self.process.poll() is None, self.said()
            return text in self.said()

        until(there, within_s, f"'{text}' in {self.log}")

    def end(self, within_s: float = 15.0) -> int:
        """End it as systemd does; return its exit code."""
        self.process.terminate()
        return self.process.wait(within_s)


@contextlib.contextmanager
def agent(
    house: House, *options: str, program: Path | None = None, **environ: str
) -> Iterator[AgentProcess]:
    """Run an agent meanwhile."""
    one = AgentProcess(house, *options, program=program, **environ)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(10)


def fake_tritons(root: Path, *python: str) -> dict[str, Any]:
    """Return the part of a spec whose Tritons are fakes: Python with other words than usual."""
    words = " ".join(f'"{word}"' for word in (python or ("-m", "tarn.testing.fake_triton")))
    program = root / "tritonserver"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
    program.chmod(0o700)
    (root / "models" / "echo" / "1").mkdir(parents=True)
    return {
        "models": {"repository": str(root / "models")},
        "triton": {"binary": str(program), "exit_timeout": "5s"},
    }


def argv_of(pid: int) -> str:
    """Return the command line of a process, as everybody on the machine can see it."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def alive(pid: int) -> bool:
    """Say whether there is such a process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
