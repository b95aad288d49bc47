"""The JVM of a test process, with the Hadoop of the session's sandbox."""

from collections.abc import Mapping

from tarn.config import environ
from tarn.java import hadoop_classpath, java_home, start

HEAP_MIB = 96


def java(hadoop: Mapping[str, str]) -> None:
    """Start the JVM once in this process; *hadoop* is the sandbox's part of the environment."""
    every = {**environ(), **hadoop}
    start(hadoop_classpath(every), HEAP_MIB, java_home(every))
