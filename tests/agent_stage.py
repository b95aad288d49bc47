"""A stage for the agent: a real HAProxy, a wire that hears each command, and agents beside it."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from asking import free_ports
from house import House, until
from short_folder import short_folder

BACKEND = "triton_backend"
_CONFIG = """global
  stats socket {socket} level admin
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  timeout queue 2s
frontend door
  bind 127.0.0.1:{port}
  default_backend {backend}
backend {backend}
  balance leastconn
  option httpchk GET /v2/health/ready
"""
_WRITES = re.compile(r"(add|del|set|enable|disable|shutdown|clear)\s(?!table)")


class Proxy:
    """One HAProxy without a server, or with placeholders ``triton-1``, ``triton-2`` and so on."""

    def __init__(self, root: Path, slots: int = 0) -> None:
        self.port, _, _ = free_ports()
        self.socket = short_folder(self) / "haproxy.sock"
        self._file = root / "haproxy.cfg"
        text = _CONFIG.format(socket=self.socket, port=self.port, backend=BACKEND)
        if slots:
            text += f"  server-template triton- 1-{slots} 127.0.0.1:1 check inter 1s disabled\n"
        self._file.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        program = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
        assert program is not None, "no haproxy on this machine"
        with self._file.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-db", "-f", str(self._file)], stdout=log, stderr=log
            )
        until(self._answers, 20, "HAProxy's socket")
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def command(self, text: str) -> str:
        """Say *text* to HAProxy's own socket."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(str(self.socket))
            sock.sendall(text.encode() + b"\n")
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    def servers(self) -> dict[str, str]:
        """Return the servers that may get traffic: name to address."""
        _, head, *rows = self.command(f"show servers state {BACKEND}").strip().splitlines()
        names = head.lstrip("# ").split()
        shown = [dict(zip(names, row.split(), strict=False)) for row in rows if row]
        return {
            row["srv_name"]: f"{row['srv_addr']}:{row['srv_port']}"
            for row in shown
            if row["srv_admin_state"] in {"0", "4"}  # 4: it began in maintenance, and is not now
        }

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return "Pid:" in self.command("show info")
        return False


class Wire:
    """A Unix socket that leads to another one, and keeps what was said to it."""

    def __init__(self, behind: Path, path: Path) -> None:
        self.path = path
        self._behind = behind
        self._said: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._accept, name="wire", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def forget(self) -> None:
        """Begin to listen anew."""
        self._said.clear()

    def commands(self) -> list[str]:
        """Return every line that was said, in order."""
        return b"".join(list(self._said)).decode().replace(";", "\n").splitlines()

    def writes(self) -> list[str]:
        """Return the lines that would change something."""
        return [line for line in self.commands() if _WRITES.match(line.strip())]

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), name="wire", daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far, contextlib.suppress(OSError):
            far.connect(str(self._behind))
            back = threading.Thread(target=_pump, args=(far, near), name="wire", daemon=True)
            back.start()
            while data := near.recv(65536):
                self._said.append(data)
                far.sendall(data)
            with contextlib.suppress(OSError):
                far.shutdown(socket.SHUT_WR)
            back.join(10)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class AgentProcess:
    """``tarn lb haproxy`` as a user starts it; what it says is in a file.

    Args:
        house: Its home, and where it stands.
        options: Of the verb; or those of another *program*, which becomes that verb.
        program: None: ``tarn lb haproxy``.
        environ: Beside the house's.
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
