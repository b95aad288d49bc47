"""Hadoop's configuration as the files on the classpath give it, and what TARN changes in it."""

from collections.abc import Mapping
from typing import Any

from tarn.java import load

__all__ = ["configuration"]

# Measured: with Hadoop's own values a restarted ResourceManager is found again after 30 s, one
# that failed over after more than a minute, and a node that is gone blocks a call for 180 s.
_PATIENCE = {
    "yarn.resourcemanager.connect.retry-interval.ms": "1000",
    "yarn.client.failover-sleep-base-ms": "500",
    "yarn.client.failover-sleep-max-ms": "2000",
    "yarn.client.nodemanager-connect.max-wait-ms": "10000",
    "yarn.client.nodemanager-connect.retry-interval-ms": "1000",
}


def configuration(changes: Mapping[str, str] | None = None) -> Any:
    """Return a new ``YarnConfiguration``, with TARN's patience and *changes*.

    Needs the JVM; reads the files on its classpath, which takes some 100 ms.
    """
    found = load("org.apache.hadoop.yarn.conf.YarnConfiguration")()
    for name, value in {**_PATIENCE, **(changes or {})}.items():
        found.set(name, value)
    return found
