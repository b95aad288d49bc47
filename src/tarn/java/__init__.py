"""The JVM of a process: its jars, its start, and its errors.

Only `tarn.java.jvm` imports JPype, and only when `start` is called. Jars that clash with Hadoop's
go into an `IsolatedClassLoader`. A process with a JVM must not fork or enable faulthandler, which
uses the same signals. Python threads that call Java are attached to it as daemons, so none of them
keeps the process alive.
"""

from tarn.java.archive import ClassArchive
from tarn.java.classpath import (
    OLDEST_HADOOP,
    dotted,
    hadoop_classpath,
    hadoop_numbers,
    java_home,
    java_version,
    kerberos_options,
)
from tarn.java.hadoop_jvm import HadoopJvm
from tarn.java.jvm import (
    OLDEST_JAVA,
    Fault,
    IsolatedClassLoader,
    describe,
    ensure,
    leave,
    load,
    mask,
    start,
    started,
    throwable,
)

__all__ = [
    "OLDEST_HADOOP",
    "OLDEST_JAVA",
    "ClassArchive",
    "Fault",
    "HadoopJvm",
    "IsolatedClassLoader",
    "describe",
    "dotted",
    "ensure",
    "hadoop_classpath",
    "hadoop_numbers",
    "java_home",
    "java_version",
    "kerberos_options",
    "leave",
    "load",
    "mask",
    "start",
    "started",
    "throwable",
]
