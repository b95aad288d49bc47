"""Servers that the tests of discoveries start; each part keeps its own in a stage of its own."""

from servers.haproxy import haproxy  # noqa: F401
from servers.knox import perimeter  # noqa: F401
from servers.zookeeper import (  # noqa: F401
    zookeeper,
    zookeeper_alone,
    zookeeper_three,
    zookeeper_tls,
)
