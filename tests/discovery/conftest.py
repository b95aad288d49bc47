"""Fixtures of the real servers; each stage brings its own."""

from zookeeper_stage import (  # noqa: F401
    zookeeper,
    zookeeper_alone,
    zookeeper_three,
    zookeeper_tls,
)
