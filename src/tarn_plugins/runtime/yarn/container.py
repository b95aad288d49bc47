"""A master's command and environment, and what it reads from its container's. Pure."""

import json
import re
from collections.abc import Mapping

import attrs

from tarn.domain import Epoch
from tarn.errors import LaunchError
from tarn.java import HadoopJvm
from tarn_plugins.runtime.yarn import YarnSettings, class_archives

__all__ = [
    "HEAP_VARIABLE",
    "JAVA_VARIABLE",
    "application_id",
    "epoch",
    "heap_mib",
    "host",
    "master_command",
    "master_environ",
    "master_jvm",
]

# The deployer sets it from ``master.memory``: the JVM starts before the spec can be read.
HEAP_VARIABLE = "TARN_JAVA_HEAP_MIB"
# The deployer sets it from ``runtime.options.java_home``. ``JAVA_HOME`` may be the node's own, over
# which a Java in the packed environment takes precedence.
JAVA_VARIABLE = "TARN_JAVA_HOME"
# Measured: the live Java objects of a master take 15 MiB.
_LEAST_HEAP_MIB, _MOST_HEAP_MIB = 64, 512

# ``container_e01_1700000000000_0001_02_000001``: the epoch part comes after an RM restart.
_CONTAINER = re.compile(r"container_(?:e\d+_)?(?P<cluster>\d+)_(?P<app>\d+)_(?P<attempt>\d+)_\d+")


def heap_mib(memory_mib: int) -> int:
    """Return the size of Java's heap in a master's container, most of which Python uses."""
    return max(_LEAST_HEAP_MIB, min(memory_mib // 16, _MOST_HEAP_MIB))


def epoch(environ: Mapping[str, str]) -> Epoch:
    """Return (submission time in ms, attempt), which grows with every master of a name.

    YARN sets ``APP_SUBMIT_TIME_ENV`` and ``CONTAINER_ID`` (``ApplicationConstants``).
    """
    attempt = int(_container(environ)["attempt"])
    return Epoch(int(_needed(environ, "APP_SUBMIT_TIME_ENV")), attempt)


def application_id(environ: Mapping[str, str]) -> str:
    """Return the id of this container's application."""
    found = _container(environ)
    return f"application_{found['cluster']}_{found['app']}"


def host(environ: Mapping[str, str]) -> str:
    """Return the name of this node, as its NodeManager reports it."""
    return _needed(environ, "NM_HOST")


def master_command(python: str, environ: Mapping[str, str]) -> list[str]:
    """Return the master's command line; *environ* is that of `master_environ`."""
    jvm = json.dumps(attrs.asdict(master_jvm(environ)))
    # -P: no file in the working directory can shadow a module.
    return [python, "-P", "-m", "tarn.java", jvm, "tarn.master", ".", "--runtime", "yarn"]


def master_jvm(environ: Mapping[str, str]) -> HadoopJvm:
    """Return the JVM of the master in a container with this environment."""
    return HadoopJvm(
        int(environ.get(HEAP_VARIABLE) or heap_mib(0)),
        java_home=environ.get(JAVA_VARIABLE),
        archives=class_archives.DIRECTORY,
    )


def master_environ(settings: YarnSettings, memory_mib: int) -> dict[str, str]:
    """Return the variables that TARN sets for a master of *memory_mib*.

    They contain no secret, since everybody may read them.
    """
    named = {
        "HADOOP_HOME": settings.hadoop_home,
        "JAVA_HOME": settings.java_home,
        JAVA_VARIABLE: settings.java_home,
    }
    return {
        "MALLOC_ARENA_MAX": "2",
        "PYTHONUNBUFFERED": "1",
        HEAP_VARIABLE: str(heap_mib(memory_mib)),
        **{name: value for name, value in named.items() if value},
    }


def _container(environ: Mapping[str, str]) -> re.Match[str]:
    text = _needed(environ, "CONTAINER_ID")
    found = _CONTAINER.fullmatch(text)
    if found is None:
        raise LaunchError("yarn", f"CONTAINER_ID = '{text}' is not the id of a container")
    return found


def _needed(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise LaunchError(
            "yarn",
            f"the environment has no {name}",
            next_step="Only YARN starts a master of the runtime yarn: use `tarn up`.",
        )
    return value
