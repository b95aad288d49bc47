"""Servers that the tests of discoveries start; each part keeps its own in a stage of its own."""

from haproxy_stage import haproxy  # noqa: F401
