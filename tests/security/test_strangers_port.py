"""Another user of the machine listens where a master died: no token reaches them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from house import House, kill, until

pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user"),
]

STRANGER = 65002
"""No user of this machine has this number."""
PROGRAM = """
import os, socket, sys
port, kept = int(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.setgroups([])
os.setresgid(*[int(sys.argv[3])] * 3)
os.setresuid(*[int(sys.argv[3])] * 3)
listener = socket.create_server(("127.0.0.1", port))
print("listens", flush=True)
hello = b'HTTP/1.1 401 No\\nWWW-Authenticate: TARN nonce="1-a"\\nContent-Length: 0\\n\\n'
good = b'HTTP/1.1 200 OK\\nContent-Type: application/json\\nContent-Length: 2\\n\\n{}'
hello, good = (one.replace(b"\\n", b"\\r\\n") for one in (hello, good))
turn = 0
while True:
    line, _ = listener.accept()
    line.settimeout(2)
    try:
        while data := line.recv(65536):
            os.write(kept, data)
            line.sendall((hello, good)[b"TARN p1" in data or turn % 2])
    except OSError:
        pass
    line.close()
    turn += 1
"""


@contextlib.contextmanager
def stranger(port: int, kept: Path) -> Iterator[None]:
    """Listen at *port* as another user, and keep what arrives in *kept*."""
    argv = [sys.executable, "-c", PROGRAM, str(port), str(kept), str(STRANGER)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"listens\n"
        yield
    finally:
        process.kill()
        process.wait(5)
        process.stdout.close()


def status_with(url: str, token: str) -> int:
    """Ask as curl does."""
    request = urllib.request.Request(f"{url}/api/v1/status", headers={"X-TARN-Token": token})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def token_of(house: House) -> str:
    path = house.directory("demo") / "api_token"
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_text()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True


@pytest.mark.timeout(240)
def test_a_stranger_at_the_dead_masters_port_learns_no_token(  # noqa: PLR0915 (one fleet's story)
    house: House,
) -> None:
    """With a keeper that is about to start another master, and with none: the same fleet goes on.

    What the next master sees of it is told, and the token is a new one that `tarn` follows.
    """
    replicas = {"min": 1, "max": 2, "initial": 1}
    done = house.tarn("up", "-f", house.spec("demo", replicas=replicas))
    assert done.returncode == 0, done.stderr
    tritons = house.tritons("demo")
    first, ref, kept = token_of(house), house.ref("demo"), house.root / "received"
    port = urlsplit(ref["url"]).port
    assert port is not None
    keeper = json.loads((house.directory("demo") / "keeper.json").read_text())["pid"]
    kill(keeper, signal.SIGSTOP)
    kill(ref["pid"])
    until(lambda: gone(ref["pid"]), 10, "the end of the master")
    with stranger(port, kept):
        # the keeper is alive: another master is on its way
        said = house.tarn("status", "-c", "demo")
        assert said.returncode == 0, said.stderr
        assert "the master is being started again; 1 instance serves" in said.stdout
        assert f"127.0.0.1:{port} another program answers" in said.stdout
        assert "no token was sent" in said.stdout
        house.tarn("metrics", "-c", "demo")
        kill(keeper, signal.SIGCONT)
        after = until(
            lambda: (now := house.ref("demo")) and now["pid"] != ref["pid"] and now, 30, "a master"
        )
        assert urlsplit(after["url"]).port != port
        until(lambda: house.status("demo")["ready"] == 1, 30, "the instance")
        second = token_of(house)
        assert second != first
        assert status_with(after["url"], first) == 401
        assert status_with(after["url"], second) == 200
        told = house.tarn("events", "-c", "demo").stdout
        assert f"user {STRANGER} holds port {port}" in told
        assert second not in told
    received = kept.read_bytes()
    assert b"Authorization: TARN" in received
    assert first.encode() not in received
    assert second.encode() not in received

    kill(keeper)
    kill(after["pid"])
    until(lambda: gone(after["pid"]), 10, "the end of the second master")
    with stranger(urlsplit(after["url"]).port or 0, kept):
        said = house.tarn("status", "-c", "demo")
        assert "no master is running; 1 instance serves; `tarn up` takes it over" in said.stdout
        assert "no token was sent" in said.stdout
        done = house.tarn("up", "-f", house.spec("demo", replicas=replicas))
        assert done.returncode == 0, done.stderr
        third = token_of(house)
        assert third not in (first, second)
        until(lambda: house.status("demo")["ready"] == 1, 30, "the instance")
        assert house.tritons("demo") == tritons
    received = kept.read_bytes()
    assert b"Authorization: TARN" in received
    for token in (first, second, third):
        assert token.encode() not in received
    log = (house.directory("demo") / "logs" / "master.log").read_text()
    for token in (first, second, third):
        assert token not in log
