"""The one JVM of a process: its jars, its start, and its errors in words.

Only `tarn.java.jvm` imports JPype, and only once `start` is called. A process that holds a JVM
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
from tarn.java.jvm import OLDEST_JAVA, leave, load, start, throwable

__all__ = [
    "OLDEST_HADOOP",
    "OLDEST_JAVA",
    "Fault",
    "describe",
    "dotted",
    "hadoop_classpath",
    "hadoop_numbers",
    "java_home",
    "kerberos_options",
    "leave",
    "load",
    "mask",
    "start",
    "throwable",
]
