"""Which Hadoop answers, and whether it is new enough. Pure."""

from collections.abc import Mapping
from typing import Any

from tarn.errors import LaunchError
from tarn.java import OLDEST_HADOOP, dotted, hadoop_numbers

__all__ = ["INFO", "of_manager", "refuse_old"]

INFO = "ws/v1/cluster/info"
"""Where a ResourceManager says its version, below its web address."""


def of_manager(info: Any) -> str:
    """Return Hadoop's version in the answer at `INFO`; '' where it says none.

    ``resourceManagerVersion`` is the same but for a ResourceManager that was built by itself.
    """
    told = info.get("clusterInfo") if isinstance(info, Mapping) else None
    return str(told.get("hadoopVersion") or "") if isinstance(told, Mapping) else ""


def refuse_old(manager: str, client: str, where: str) -> None:
    """Do nothing where *manager*, a ResourceManager's version, is new enough, or nothing is known.

    Args:
        manager: As `of_manager` returns it.
        client: The version of the client that asks.
        where: The ResourceManager's address.

    Raises:
        LaunchError: It is too old (TARN-3121).
    """
    numbers = hadoop_numbers(manager)
    if numbers is None or numbers >= OLDEST_HADOOP:
        return
    raise LaunchError(
        "yarn",
        f"the ResourceManager is of Hadoop {manager}, this client of Hadoop {client}",
        code="TARN-3121",
        where=where,
        right=f"{dotted(OLDEST_HADOOP)} or newer is needed on both",
        next_step="Set HADOOP_CONF_DIR to a newer YARN, or have this one updated; a newer client "
        "does not help.",
    )
