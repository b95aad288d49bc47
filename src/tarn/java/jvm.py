"""Start the JVM, once in a process, and give its classes. The only home of JPype."""

import contextlib
import faulthandler
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import attrs

from tarn.errors import LaunchError, ProviderMissingError

__all__ = [
    "OLDEST_JAVA",
    "ensure",
    "implemented",
    "leave",
    "load",
    "start",
    "started",
    "throwable",
]

OLDEST_JAVA = 11
"""What Hadoop runs on besides Java 8, which refuses the class files of JPype 1.7 (Java 9's)."""
_LOG4J = Path(__file__).with_name("log4j.properties")

# Measured with an AMRMClient, an NMClient and HDFS in one process: 15 MiB of heap, 26 of metaspace
# and 5 of code are in use. Without the four bounds of the heap Java takes what -Xmx allows before
# it looks for garbage, which costs some 20 MiB for nothing.
_FRUGAL = (
    "-Xrs",  # signals stay Python's
    # With -Xrs Java listens for `jcmd` and `jstack` from its start, on a socket in /tmp that only
    # an orderly exit removes: `leave`, and whoever kills the process, would leave the file behind.
    "-XX:+DisableAttachMechanism",
    "-XX:+UseSerialGC",
    "-Xms8m",
    "-Xmn6m",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-XX:MaxMetaspaceSize=96m",
    "-XX:ReservedCodeCacheSize=32m",
    "-XX:-UsePerfData",  # else a file in /tmp for each process, and a thread that writes it
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dfile.encoding=UTF-8",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


@attrs.frozen
class _Needs:
    """What a JVM was started with."""

    classpath: tuple[str, ...]
    heap_mib: int
    java_home: str | None
    options: tuple[str, ...]


@attrs.define
class _Process:
    """This process's JVM: a second one cannot exist, so neither can a second one of these."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    started: _Needs | None = None


_process = _Process()


def start(
    classpath: tuple[str, ...],
    heap_mib: int,
    java_home: str | None = None,
    options: tuple[str, ...] = (),
) -> None:
    """Start the JVM of this process; a second call with the same needs does nothing.

    Any thread. Takes 0.3 to 1 s. The process ends without waiting for Java's threads; see `leave`
    where a Python thread may be in Java then.

    Args:
        classpath: Directories and jars, each named: ``dir/*`` is not understood.
        heap_mib: The most that Java's heap may take, MiB.
        java_home: Java's directory; None: JPype looks in the usual places.
        options: Further options of the JVM.

    Raises:
        ProviderMissingError: JPype is not installed.
        LaunchError: No Java, one that is too old (both TARN-3122), or a JVM that cannot start
            (TARN-3123): faulthandler is on, it runs already with other needs.
    """
    needs = _Needs(classpath, heap_mib, java_home, options)
    with _process.lock:
        if _process.started == needs:
            return
        if _process.started is not None:
            raise _not_started("this process has a JVM already, with other jars or options")
        if faulthandler.is_enabled():
            raise _not_started(
                "faulthandler is enabled, and it uses the signals of the JVM",
                "Leave out -X faulthandler and PYTHONFAULTHANDLER.",
            )
        _start(needs)
        _process.started = needs


def started() -> bool:
    """Say whether this process has its JVM. Any thread."""
    return _process.started is not None


def ensure(heap_mib: int, java_home: str | None = None, options: tuple[str, ...] = ()) -> None:
    """Start a JVM with nothing on its classpath, unless this process has one already.

    For what brings its jars in an `IsolatedClassLoader`, and so takes the JVM as somebody else
    started it. The parameters and the errors are those of `start`.
    """
    with _process.lock:
        running = _process.started is not None
    if not running:
        start((), heap_mib, java_home, options)


def load(name: str, loader: Any = None) -> Any:
    """Return the Java class *name*, such as ``org.apache.hadoop.conf.Configuration``.

    Args:
        name: With its package.
        loader: The ``java.lang.ClassLoader`` to ask; None: the classpath.

    Raises:
        LaunchError: Hadoop's jars do not have it, or no JVM was started (TARN-3123).
    """
    import jpype  # noqa: PLC0415

    if not jpype.isJVMStarted():
        raise _not_started("no JVM was started in this process")
    try:
        return jpype.JClass(name) if loader is None else jpype.JClass(name, loader=loader)
    except _absent(jpype) as error:
        raise LaunchError(
            "java",
            f"no jar on the classpath has the class {name}",
            code="TARN-3120",
            next_step="Check that runtime.options.hadoop_home names a complete Hadoop client.",
        ) from error


def _absent(jpype: Any) -> tuple[type[Exception], ...]:
    """Return what says that a class is not there: JPype's own word, and a loader's."""
    words = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")
    return TypeError, *map(jpype.JClass, words)


def implemented(interface: Any, methods: Mapping[str, Callable[..., Any]]) -> Any:
    """Return a Java object of *interface* whose methods are Python's, by their names.

    Java calls them on its own threads. A Java exception passes through them as it is, and one of
    Python's arrives as a ``RuntimeException``.
    """
    import jpype  # noqa: PLC0415

    return jpype.JProxy(interface, dict=dict(methods))


def throwable() -> type[Exception]:
    """Return ``java.lang.Throwable``, to be named in an ``except``."""
    found: type[Exception] = load("java.lang.Throwable")
    return found


def leave(status: int) -> NoReturn:
    """End this process now, without the usual clearing up; standard streams are flushed.

    For a process that has a daemon thread in a Java call when it ends, so for every master, too.
    A JVM would otherwise wait for threads of its own that are not daemons. Should such a call come
    back while Python takes itself apart, Python (before 3.14) ends the thread in the middle of
    JPype's C++, and the process dies of SIGABRT (seen). One whose threads were joined needs no
    more than ``sys.exit``.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _start(needs: _Needs) -> None:
    jpype = _jpype()
    # Hadoop leaves threads behind that are not daemons; nothing of ours waits for Java at the end.
    jpype.config.destroy_jvm = False
    jpype.config.onexit = False
    library = _library(needs.java_home)
    # with nothing on the classpath nothing logs, and an island must not be told where to
    told = not needs.classpath or _has_log4j(needs.classpath)
    logging = () if told else (f"-Dlog4j.configuration={_LOG4J.as_uri()}",)
    flags = (f"-Xmx{needs.heap_mib}m", *_FRUGAL, *logging, *needs.options)
    try:
        # interrupt: without it Java takes ^C, which belongs to Python here
        jpype.startJVM(
            *flags,
            jvmpath=library,
            classpath=list(needs.classpath),
            convertStrings=False,
            interrupt=False,
        )
    except (jpype.JVMNotFoundException, jpype.JVMNotSupportedException) as error:
        raise _no_java(f"no Java was found: {error}") from error
    except (OSError, RuntimeError) as error:
        raise _not_started(str(error)) from error


def _jpype() -> ModuleType:
    """Import JPype, without numpy.

    It imports numpy where there is one, for arrays that nobody passes here: 21 MiB and 0.3 s in
    every master (measured). For this moment there is none.
    """
    hidden = "numpy" not in sys.modules
    if hidden:
        sys.modules["numpy"] = None  # type: ignore[assignment] # Python's word for "not there"
    try:
        import jpype  # noqa: PLC0415
        import jpype.config  # noqa: PLC0415
    except ImportError as error:
        raise ProviderMissingError(
            "java",
            f"it connects Python and Java, and {ProviderMissingError.reason('jpype', error)}",
            next_step="pip install 'tarn-orchestrator[yarn]'",
        ) from error
    finally:
        if hidden:
            del sys.modules["numpy"]
    module: ModuleType = jpype
    return module


def _library(java_home: str | None) -> str | None:
    """Return ``libjvm`` of *java_home* after a look at its version; None: JPype's own search."""
    if java_home is None:
        return None
    home = Path(java_home)
    version = _version(home)
    if version is not None and version < OLDEST_JAVA:
        raise _no_java(f"Java {version} at '{java_home}' is too old")
    for place in ("lib/server", "jre/lib/server", "lib/client"):
        library = home / place / "libjvm.so"
        if library.is_file():
            return str(library)
    raise _no_java(f"'{java_home}' has no lib/server/libjvm.so")


def _version(home: Path) -> int | None:
    """Return the feature release from Java's ``release`` file (``1.8.0_392`` is 8)."""
    try:
        text = (home / "release").read_text("utf-8", errors="replace")
    except OSError:
        # a JRE 8 inside a JDK has no file of its own, and keeps its library elsewhere
        return 8 if list(home.glob("jre/lib/*/server/libjvm.so")) else None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found[1]) if found else None


def _has_log4j(classpath: tuple[str, ...]) -> bool:
    names = ("log4j.properties", "log4j2.properties", "log4j2.xml", "logback.xml")
    folders = [Path(entry) for entry in classpath if not entry.endswith(".jar")]
    return any((folder / name).is_file() for folder in folders for name in names)


def _no_java(found: str) -> LaunchError:
    return LaunchError(
        "java",
        found,
        code="TARN-3122",
        right="Java 11 or newer is needed",
        next_step="Set runtime.options.java_home, or JAVA_HOME, to its directory.",
    )


def _not_started(found: str, next_step: str = "") -> LaunchError:
    return LaunchError(
        "java", f"the JVM was not started: {found}", code="TARN-3123", next_step=next_step
    )
