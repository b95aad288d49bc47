"""Jars apart from everybody else's, in the JVM of this process."""

import contextlib
import threading
from pathlib import Path

import pytest
from servers.ranger import library

from tarn.errors import LaunchError
from tarn.java import IsolatedClassLoader, jvm

PLUGIN = "org.apache.ranger.plugin.service.RangerBasePlugin"


@pytest.fixture(scope="module")
def island(java: None) -> IsolatedClassLoader:
    return IsolatedClassLoader(sorted(library().glob("*.jar")))


def test_what_is_on_an_island_is_seen_there_only(island: IsolatedClassLoader) -> None:
    """The classpath does not have it, another island neither; what the JDK has is everybody's."""
    assert str(island.load(PLUGIN).class_.getName()) == PLUGIN
    for elsewhere in (jvm.load, IsolatedClassLoader([]).load):
        with pytest.raises(LaunchError, match="has the class"):
            elsewhere(PLUGIN)
    assert island.load("java.util.HashSet") is jvm.load("java.util.HashSet")


def test_a_class_of_two_islands_exists_twice(island: IsolatedClassLoader) -> None:
    """As that of a jar which is on the classpath and on an island."""
    name = "org.slf4j.LoggerFactory"
    other = IsolatedClassLoader(sorted(library().glob("slf4j-*.jar")))
    assert not island.load(name).class_.equals(other.load(name).class_)


def test_the_context_is_the_threads_own_and_is_given_back(island: IsolatedClassLoader) -> None:
    """Also on a thread of Python's, which has none before; and after an exception."""
    seen: list[bool] = []

    def look() -> None:
        thread = jvm.load("java.lang.Thread").currentThread()
        before = thread.getContextClassLoader()
        with contextlib.suppress(KeyError), island.context():
            inside = thread.getContextClassLoader()
            seen.append(inside.equals(island.load(PLUGIN).class_.getClassLoader()))
            raise KeyError
        after = thread.getContextClassLoader()
        seen.append(after is None if before is None else after.equals(before))
        jvm.load("java.lang.Thread").detach()

    worker = threading.Thread(target=look)
    worker.start()
    worker.join(30)
    look()
    assert seen == [True] * 4


def test_python_answers_for_an_interface_of_an_island(island: IsolatedClassLoader) -> None:
    """Java calls it, and gets what it gives."""
    one = island.implemented(
        "java.util.concurrent.Callable", {"call": lambda: jvm.load("java.lang.String")("called")}
    )
    pool = jvm.load("java.util.concurrent.Executors").newSingleThreadExecutor()
    try:
        assert str(pool.submit(one).get()) == "called"
    finally:
        pool.shutdown()


def test_what_is_not_there_is_refused(java: None, tmp_path: Path) -> None:
    """Java itself would go on without it, and miss a class much later."""
    with pytest.raises(LaunchError, match=r"not found: .*no\.jar") as caught:
        IsolatedClassLoader([tmp_path, tmp_path / "no.jar"])
    assert caught.value.code == "TARN-3120"
