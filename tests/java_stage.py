"""The JVM of a test process, with the Hadoop that the environment names."""

import pytest

from tarn.config.process import environ
from tarn.errors import LaunchError
from tarn.java import hadoop_classpath, java_home, start

HEAP_MIB = 96


def java() -> None:
    """Start the JVM, or skip: a machine without Hadoop has nothing to test here."""
    found = environ()
    if not found.get("HADOOP_CONF_DIR"):
        pytest.skip("needs a YARN: `tarn sandbox up`, then HADOOP_CONF_DIR and HADOOP_HOME")
    try:
        entries = hadoop_classpath(found)
    except LaunchError as error:
        pytest.skip(str(error))
    start(entries, HEAP_MIB, java_home(found))
