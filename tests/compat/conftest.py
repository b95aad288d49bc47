"""Servers that some faults of the Java TARN are about."""

from servers.haproxy import haproxy  # noqa: F401
from servers.zookeeper import zookeeper  # noqa: F401
