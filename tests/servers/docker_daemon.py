"""A dockerd of the tests' own. Another one on the machine, its containers and images are not seen.

Socket, data, pid file and namespace of containerd are its own; firewall and forwarding of the
machine stay as they are. Networks of Docker's kind ``bridge`` work nevertheless: Docker's proxy
takes connections to a mapped port and makes new ones to the container, over a bridge that has its
own subnet.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from tarn_plugins.cli.sandbox.daemons import DaemonProcess, spawn

NEEDED = ("dockerd", "docker", "containerd", "runc")
SYS_ADMIN, NET_ADMIN = 1 << 21, 1 << 12
"""Bits of a process's capabilities (``linux/capability.h``)."""
START_S, END_S, LOOK_S = 60.0, 30.0, 0.1
NOWHERE = "http://127.0.0.1:9"
"""As a proxy: nothing is pulled from anywhere."""
GROUPS = Path("/sys/fs/cgroup")
WEIGHT = 16
"""What all containers together get of the cores: that many times the share of one process."""


def lacking() -> str:
    """Return why no dockerd can run here; empty where one can: then it has to start."""
    if os.geteuid() != 0:
        return "dockerd runs as root only"
    for name in NEEDED:
        if shutil.which(name) is None:
            return f"there is no {name} on PATH: apt-get install docker.io"
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    held = int(found[1], 16) if found else 0
    if not (held & SYS_ADMIN and held & NET_ADMIN):
        return "this root may neither mount nor make networks (a container without privileges?)"
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    groups = [mount for mount in mounts if mount[2] in ("cgroup", "cgroup2")]
    if not groups:
        return "no cgroups are mounted"
    if all("ro" in mount[3].split(",") for mount in groups):
        return "cgroups are mounted read-only"
    return ""


class Bridge:
    """A bridge with a subnet of its own, where one can be made.

    Args:
        number: Of the tests' network: who holds that one holds this one.
    """

    def __init__(self, number: int) -> None:
        self.name = f"tarn-test-{number}"
        self._subnet = f"10.213.{number}"

    def make(self) -> str:
        """Make it; return why there is none, or nothing."""
        if shutil.which("ip") is None:
            return "there is no `ip` on PATH: apt-get install iproute2"
        self.remove()  # a session that was killed had the same number
        if route := _ip("route", "show", "match", f"{self._subnet}.1", "table", "main").stdout:
            taken = [line for line in route.splitlines() if not line.startswith("default")]
            if taken:
                return f"the machine routes {self._subnet}.0/24 elsewhere: {taken[0]}"
        for words in (
            ("link", "add", self.name, "type", "bridge"),
            ("address", "add", f"{self._subnet}.1/24", "dev", self.name),
            ("link", "set", self.name, "up"),
        ):
            done = _ip(*words)
            if done.returncode:
                self.remove()
                return f"`ip {' '.join(words)}` fails: {done.stderr.strip()}"
        return ""

    def there(self) -> bool:
        return Path("/sys/class/net", self.name).exists()

    def remove(self) -> None:
        _ip("link", "delete", self.name)


def _ip(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ip", *words], check=False, capture_output=True, text=True)


class Dockerd:
    """One dockerd in *folder*, which must have a short name: sockets lie below. One thread.

    Args:
        folder: Its own.
        number: Of the tests' network; two at the same time have different ones.
        address: Where mapped ports listen, and nowhere else.
    """

    def __init__(self, folder: Path, number: int, address: str) -> None:
        self.folder, self.address = folder, address
        self.host = f"unix://{folder}/docker.sock"
        self.log = folder / "dockerd.log"
        self.bridge = Bridge(number)
        self.no_bridge = ""
        """Why containers have no network of their own; set by `start`."""
        self._number = number
        self._group = f"tarn-test-{number}"
        self._pid = folder / "dockerd.json"

    def start(self, environ: dict[str, str]) -> None:
        """Start it, and wait until it answers; that it does not is a failure."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "daemon.json").write_text("{}")  # not the machine's, which is another's
        self.no_bridge = self.bridge.make()
        self._weigh()
        names = ("HOME", "LANG", "PATH")
        plain = {name: environ[name] for name in names if name in environ}
        proxied = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
        process = spawn(self._command(), {**plain, **proxied}, self.folder, self.log)
        process.write(self._pid)
        pause, end_s = threading.Event(), time.monotonic() + START_S
        while self.docker("version", check=False).returncode:
            if not process.alive or time.monotonic() > end_s:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                self.end()
                raise AssertionError(f"dockerd does not start; its log ends:\n{tail}")
            pause.wait(LOOK_S)

    def _weigh(self) -> None:
        """Give all containers together more of the cores than one process has.

        That is their share by default: beside twenty busy processes of other tests, a master and
        its Tritons would get a tenth of a core, and YARN would give the master up.
        """
        second = (GROUPS / "cgroup.controllers").exists()  # cgroups 2, else 1
        folder = GROUPS / self._group if second else GROUPS / "cpu" / self._group
        file, share = ("cpu.weight", 100 * WEIGHT) if second else ("cpu.shares", 1024 * WEIGHT)
        with contextlib.suppress(OSError):  # not given to this root: the tests are slower then
            folder.mkdir(exist_ok=True)
            (folder / file).write_text(str(share))

    def _command(self) -> list[str]:
        network = "none" if self.no_bridge else self.bridge.name
        space = f"tarn-test-{self._number}"
        runc = shutil.which("runc")
        return [
            "dockerd",
            f"--config-file={self.folder}/daemon.json",
            f"--host={self.host}",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/dockerd.pid",
            f"--containerd-namespace={space}",
            f"--containerd-plugins-namespace={space}-plugins",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
            "--ip-masq=false",
            f"--bridge={network}",
            f"--ip={self.address}",
            "--userland-proxy=true",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            f"--cgroup-parent=/{self._group}",
            # A GPU's runtime, as far as a machine without a GPU has one.
            f"--add-runtime=nvidia={runc}",
        ]

    def docker(
        self, *words: str, check: bool = True, **more: object
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``docker`` on this dockerd."""
        argv = ["docker", f"--host={self.host}", *words]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, **more)
        if check and done.returncode:
            raise AssertionError(f"docker {' '.join(words)}: {done.stderr.strip()}")
        return done

    def containers(self, *, running: bool = False) -> dict[str, str]:
        """Return name -> state of every container, ended ones too unless *running*."""
        every = () if running else ("--all",)
        told = self.docker("ps", *every, "--format={{.Names}} {{.State}}").stdout
        return dict(line.split(" ", 1) for line in told.splitlines())

    def inspect(self, container: str, what: str) -> str:
        """Return what a template of ``docker inspect`` says about a container."""
        return self.docker("inspect", f"--format={what}", container).stdout.strip()

    def end(self) -> None:
        """End it and all its containers, and remove everything. Idempotent."""
        process = DaemonProcess.read(self._pid)
        if process is not None and process.alive:
            if names := list(self.containers()):
                self.docker("rm", "--force", *names, check=False)
            process.send(signal.SIGTERM)
            if not process.wait(END_S):
                process.send(signal.SIGKILL)
                process.wait(END_S)
        for mount in reversed(self._mounts()):
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
        for group in (GROUPS / self._group, *GROUPS.glob(f"*/{self._group}")):
            with contextlib.suppress(OSError):  # of one that was killed a process may be left
                group.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.bridge.remove()

    def _mounts(self) -> list[str]:
        """Return what a dockerd that was killed left mounted below its folder."""
        with contextlib.suppress(OSError):
            lines = Path("/proc/self/mounts").read_text().splitlines()
            points = [line.split()[1] for line in lines]
            return [point for point in points if point.startswith(f"{self.folder}/")]
        return []
