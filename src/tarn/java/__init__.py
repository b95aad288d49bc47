"""The one JVM of a process: its jars, its start, and its errors in words.

Only `tarn.java.jvm` imports JPype, and only once `start` is called. Jars that clash with Hadoop's
live in an `IsolatedClassLoader`. A process that holds a JVM
never forks, and never enables faulthandler: the JVM uses the same signals. Python threads that
call Java are attached to it as daemons, so none of them keeps the process alive.
"""

from tarn.java.classpath import (
    OLDEST_HADOOP,
    dotted,
    hadoop_classpath,
    hadoop_numbers,
    java_home,
    kerberos_options,
)
from tarn.java.faults import Fault, describe, mask
from tarn.java.isolated_class_loader import IsolatedClassLoader
from tarn.java.jvm import OLDEST_JAVA, ensure, leave, load, start, started, throwable

__all__ = [
    "OLDEST_HADOOP",
    "OLDEST_JAVA",
    "Fault",
    "IsolatedClassLoader",
    "describe",
    "dotted",
    "ensure",
    "hadoop_classpath",
    "hadoop_numbers",
    "java_home",
    "kerberos_options",
    "leave",
    "load",
    "mask",
    "start",
    "started",
    "throwable",
]
