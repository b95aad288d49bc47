"""Servers that the tests of discoveries start; each part keeps its own in a stage of its own."""

from haproxy_stage import haproxy  # noqa: F401
from knox_stage import perimeter  # noqa: F401
from zookeeper_stage import (  # noqa: F401
    zookeeper,
    zookeeper_alone,
    zookeeper_three,
    zookeeper_tls,
)
