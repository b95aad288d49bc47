"""The machine of whoever makes a bundle: versions, room, GPUs, and the names of variables."""

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tarn.cluster.bundle.part import Offer, Part, of_json, of_text
from tarn.cluster.environment import ClusterEnvironment
from tarn.errors import NotFoundError, TimedOutError
from tarn.plain import redact
from tarn.plugins import KINDS
from tarn.release import version
from tarn.triton import gpus

__all__ = ["VERSIONS", "offers"]

VERSIONS = "machine/versions.json"

_WITHIN_S = 20.0
"""For a program that tells its version: ``hadoop`` starts a Java."""
_MOST = 64 * 2**10
"""Characters of what such a program says."""
_OURS = re.compile(r"^(?:TARN|HADOOP|YARN|JAVA|JDK|TRITON|KRB5|CUDA|NVIDIA|LD_|MALLOC|OMP)")
_TOLD = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "HADOOP_CONF_DIR",
        "HADOOP_HOME",
        "HADOOP_VERSION",
        "JAVA_HOME",
        "KRB5CCNAME",
        "KRB5_CONFIG",
        "LD_LIBRARY_PATH",
        "NVIDIA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "TARN_DISABLED_PLUGINS",
        "TARN_HOME",
        "YARN_CONF_DIR",
    }
)
"""Variables whose values are places, numbers or names; any other may hold a secret."""
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "memory_locked": resource.RLIMIT_MEMLOCK,
    "core": resource.RLIMIT_CORE,
}


def offers(around: ClusterEnvironment) -> Iterator[Offer]:
    """Yield what can be told of this machine without asking any cluster."""
    yield Offer(
        "machine/platform.json",
        "operating system, room, limits, GPUs, variables that matter",
        lambda: of_json("machine/platform.json", "this machine", _platform(around)),
    )
    yield Offer(
        VERSIONS,
        "versions of TARN, Python, installed packages and plugins",
        lambda: of_json(VERSIONS, "what is installed", _versions(around)),
    )
    for name, arguments in _programs(around.environ):
        path, what = f"machine/{name}.txt", f"what `{' '.join((name, *arguments))}` says"
        yield Offer(path, what, partial(_said, path, what, (name, *arguments), around))


def _programs(environ: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "java", ("-version",)
    yield "hadoop", ("version",)
    if shutil.which("nvidia-smi", path=environ.get("PATH")):
        yield "nvidia-smi", ()


def _said(path: str, what: str, words: tuple[str, ...], around: ClusterEnvironment) -> Part:
    program = _program(words[0], around.environ)
    try:
        done = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(around.environ),
            timeout=_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimedOutError(f"it printed nothing within {_WITHIN_S:g} s", where=program) from error
    except OSError as error:
        raise NotFoundError(f"it does not start ({error.strerror})", where=program) from error
    told = done.stdout.decode("utf-8", "replace")[:_MOST]
    return of_text(path, what, f"{program}: exit code {done.returncode}\n{told}")


def _program(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program, where its own variable says or as a shell finds it.

    Raises:
        NotFoundError: It is not on this machine.
    """
    home = environ.get(f"{name.upper()}_HOME", "")
    own = Path(home) / "bin" / name
    found = str(own) if home and own.is_file() else shutil.which(name, path=environ.get("PATH"))
    if not found:
        raise NotFoundError(f"there is no {name} on this machine", code="TARN-3840")
    return found


def _platform(around: ClusterEnvironment) -> Mapping[str, object]:
    paths = around.paths
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "container": _container(),
        "processors": os.cpu_count(),
        "processors_for_us": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "memory": _memory(),
        "free_bytes": {
            str(path): shutil.disk_usage(path).free
            for path in (paths.home, paths.cache, Path("/dev/shm"), Path("/tmp"))  # noqa: S108
            if path.exists()
        },
        "limits": {name: resource.getrlimit(number) for name, number in _LIMITS.items()},
        "gpus": list(gpus.present()),
        "variables": _variables(around.environ),
    }


def _container() -> str:
    """Return what kind of container this process runs in, as far as files tell; empty: in none."""
    marks = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
    kinds = [kind for path, kind in marks.items() if Path(path).exists()]
    return " ".join(kinds)


def _memory() -> Mapping[str, int]:
    """Return KiB of the lines of ``/proc/meminfo`` that matter."""
    wanted = {"MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Shmem"}
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: int(rest.split()[0]) for name, _, rest in pairs if name in wanted}


def _variables(environ: Mapping[str, str]) -> object:
    """Return what tells TARN, Hadoop, Java and Triton what to do; of most only that it is set."""
    chosen = {
        name: value if name in _TOLD else "set"
        for name, value in sorted(environ.items())
        if _OURS.match(name)
    }
    return redact(chosen, free=True)


def _versions(around: ClusterEnvironment) -> Mapping[str, object]:
    plugins = around.plugins()
    return {
        "tarn": version(),
        "python": sys.version,
        "executable": sys.executable,
        "packages": dict(sorted(_packages())),
        "plugins": [
            {"kind": kind, "name": name, "plugin": plugins.owner(kind, name)}
            for kind in KINDS
            for name in plugins.offers(kind)
        ],
    }


def _packages() -> Iterator[tuple[str, str]]:
    for one in importlib.metadata.distributions():
        yield one.name, one.version
