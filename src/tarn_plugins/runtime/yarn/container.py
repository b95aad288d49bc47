"""What a master learns from the environment that YARN gave its container. Pure."""

import re
from collections.abc import Mapping

from tarn.domain import Epoch
from tarn.errors import LaunchError

__all__ = ["HEAP_VARIABLE", "JAVA_VARIABLE", "application_id", "epoch", "heap_mib", "host"]

HEAP_VARIABLE = "TARN_JAVA_HEAP_MIB"
"""Set by the deployer from ``master.memory``: the JVM starts before the spec can be read."""
JAVA_VARIABLE = "TARN_JAVA_HOME"
"""Set by the deployer from ``runtime.options.java_home``: ``JAVA_HOME`` may be the node's own, and
a Java in the packed environment goes before that."""
_LEAST_HEAP_MIB, _MOST_HEAP_MIB = 64, 512
"""Measured: the live Java objects of a master take 15 MiB."""

_CONTAINER = re.compile(r"container_(?:e\d+_)?(?P<cluster>\d+)_(?P<app>\d+)_(?P<attempt>\d+)_\d+")
"""``container_e01_1700000000000_0001_02_000001``: the epoch part comes after an RM restart."""


def heap_mib(memory_mib: int) -> int:
    """Return what Java's heap may take of a master's container; Python takes the most of it."""
    return max(_LEAST_HEAP_MIB, min(memory_mib // 16, _MOST_HEAP_MIB))


def epoch(environ: Mapping[str, str]) -> Epoch:
    """Return (submission time in ms, attempt): both grow with every master of one name.

    YARN sets ``APP_SUBMIT_TIME_ENV`` and ``CONTAINER_ID`` (``ApplicationConstants``).
    """
    attempt = int(_container(environ)["attempt"])
    return Epoch(int(_needed(environ, "APP_SUBMIT_TIME_ENV")), attempt)


def application_id(environ: Mapping[str, str]) -> str:
    """Return the id of the application that this container belongs to."""
    found = _container(environ)
    return f"application_{found['cluster']}_{found['app']}"


def host(environ: Mapping[str, str]) -> str:
    """Return the name of this node, as its NodeManager calls itself."""
    return _needed(environ, "NM_HOST")


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
