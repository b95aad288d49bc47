"""Servers that some faults of the Java TARN are about."""

from haproxy_stage import haproxy  # noqa: F401
from zookeeper_stage import zookeeper  # noqa: F401
