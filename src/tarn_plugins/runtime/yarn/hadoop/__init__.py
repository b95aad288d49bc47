"""The clients of Hadoop, which hold the master's Java objects."""

from collections.abc import Mapping
from typing import Any

from tarn.java import load

__all__ = ["configuration"]

# With Hadoop's defaults, a client finds a restarted ResourceManager after 30 s, a failed-over one
# after more than a minute, and a lost node blocks a call for 180 s (measured).
_PATIENCE = {
    "yarn.resourcemanager.connect.retry-interval.ms": "1000",
    "yarn.client.failover-sleep-base-ms": "500",
    "yarn.client.failover-sleep-max-ms": "2000",
    "yarn.client.nodemanager-connect.max-wait-ms": "10000",
    "yarn.client.nodemanager-connect.retry-interval-ms": "1000",
    # The name node often learns a moment too late from a data node that a new file is whole. By
    # default the client asks again after 400 ms, twice that, and so on, five times, in 12 s: that
    # was most of the time of a small file (measured). These pauses begin with 20 ms, and add up to
    # 20 s.
    "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
    "dfs.client.block.write.locateFollowingBlock.retries": "10",
}


def configuration(changes: Mapping[str, str] | None = None) -> Any:
    """Return a new ``YarnConfiguration`` with TARN's time-outs and *changes*.

    It needs the JVM. Reading the files on the classpath takes some 100 ms.
    """
    found = load("org.apache.hadoop.yarn.conf.YarnConfiguration")()
    for name, value in {**_PATIENCE, **(changes or {})}.items():
        found.set(name, value)
    return found
