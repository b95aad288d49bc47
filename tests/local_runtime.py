"""A stage for the local runtime: a cluster's directory, and masters of it one after the other."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tarn.domain import ClusterSpec, Fact, Launch, RuntimeWish
from tarn.domain.spec import (
    ApiSpec,
    InstanceSpec,
    LogSpec,
    ModelsSpec,
    ResourcesSpec,
    TritonSpec,
)
from tarn.interfaces import MasterContext, Paths
from tarn_plugins.runtime.local.files import clear
from tarn_plugins.runtime.local.machine import processes_of
from tarn_plugins.runtime.local.runtime import LocalRuntime
from tarn_plugins.runtime.local.state import claim_epoch

MODELS = Path(__file__).parent / "models"
T = TypeVar("T")
K = TypeVar("K", bound=Fact)

FAKE = """#!{python} -IS
import os, signal, sys, time
mode = os.environ.get("FAKE", "serve")
if mode == "die":
    sys.stderr.write('E1127 23:52:36.259414 2510 main.cc:12] "Failed to start HTTP service"\\n')
    sys.exit(1)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "parent" and os.fork() == 0:
    prefix = next(a for a in sys.argv if "shm-region" in a).rpartition("=")[2]
    open("/dev/shm/" + prefix + "region", "w").close()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", *sys.argv, flush=True)
signal.pause()
"""


class SystemClock:
    """The real time."""

    def now_s(self) -> float:
        return time.monotonic()

    def at(self) -> float:
        return time.time()


class LocalRuntimeHome:
    """One cluster named ``echo``; everything it started is gone after `end`."""

    def __init__(self, home: Path, cache: Path) -> None:
        self.paths = Paths(home, cache)
        self.directory = self.paths.cluster("echo")
        self.directory.mkdir(parents=True)
        self.runtimes: list[LocalRuntime] = []
        self.woken = 0

    def fake(self) -> str:
        """Return the path of a program that takes tritonserver's arguments."""
        path = self.paths.home / "tritonserver"
        if not path.exists():
            path.write_text(FAKE.format(python=sys.executable))
            path.chmod(0o700)
        return str(path)

    def master(
        self,
        *,
        gpus: tuple[str, ...] = (),
        each: int = 0,
        token: str = "auto",
        environ: Mapping[str, str] | None = None,
        **triton: object,
    ) -> LocalRuntime:
        """Return the runtime of a new master, with the next epoch; not started."""
        spec = ClusterSpec(
            "echo",
            ModelsSpec(str(MODELS)),
            TritonSpec(**triton),
            InstanceSpec(ResourcesSpec(gpus=each)),
            api=ApiSpec(token=token),
            log=LogSpec(triton_max_size_mib=1, master_max_size_mib=1),
        )
        context = MasterContext(
            clock=SystemClock(),
            environ={**os.environ, **(environ or {})},  # noqa: TID251 (a test is an entry point)
            paths=self.paths,
            spec=spec,
            epoch=claim_epoch(None, self.directory, {}),
            directory=self.directory,
            wake=self._wake,
        )
        runtime = LocalRuntime(context, present_gpus=lambda: gpus)
        self.runtimes.append(runtime)
        self.launch = Launch(spec.models, spec.triton, spec.instance, str(MODELS), "h1")
        self.epoch = context.epoch
        return runtime

    def fake_master(self, **options: object) -> LocalRuntime:
        """Return a started runtime whose Tritons are fakes."""
        runtime = self.master(binary=self.fake(), **options)
        runtime.start("http://127.0.0.1:1")
        return runtime

    def wish(self, *ids: str, stop: tuple[str, ...] = ()) -> RuntimeWish:
        """Return the wish for *ids*, in the newest epoch."""
        want = frozenset((i, "h1") for i in ids)
        return RuntimeWish(self.epoch, 1, want, frozenset(stop), (self.launch,))

    def end(self) -> None:
        """End every thread and process."""
        for runtime in self.runtimes:
            runtime.close()
        leaders = [p.pid for p in processes_of(self.directory) if p.leader]
        clear(self.directory)
        for pid in leaders:
            reap(pid)

    def _wake(self) -> None:
        self.woken += 1


def reap(pid: int) -> None:
    """Take in an ended child of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def eventually(look: Callable[[], T], timeout_s: float = 10.0) -> T:
    """Return the first true answer of *look*."""
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while time.monotonic() < deadline_s:
        if found := look():
            return found
        pause.wait(0.005)
    raise AssertionError(f"not within {timeout_s} s")


def fact(runtime: LocalRuntime, instance_id: str, kind: type[K]) -> K | None:
    """Return the fact of this kind about one instance."""
    return next(
        (f for f in runtime.facts() if f.instance_id == instance_id and isinstance(f, kind)), None
    )
