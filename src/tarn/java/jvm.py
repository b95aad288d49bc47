"""Starts the JVM once, loads classes, describes Java's exceptions. The only import of JPype."""

import contextlib
import faulthandler
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import attrs

from tarn.errors import LaunchError, ProviderMissingError
from tarn.java.classpath import java_version

__all__ = [
    "OLDEST_JAVA",
    "Fault",
    "IsolatedClassLoader",
    "describe",
    "ensure",
    "implemented",
    "import_jpype",
    "leave",
    "load",
    "mask",
    "start",
    "started",
    "throwable",
]

_REMOTE = "org.apache.hadoop.ipc.RemoteException"
# Causes to follow: they can form a ring.
_DEEPEST = 16
# Characters of one message: some contain a whole request.
_LONGEST = 500
_SECRET = re.compile(
    r"(?i)\b([\w.-]*(?:delegation|token|passw(?:or)?d|secret|signature|access[._-]?key|sig)"
    r"[\w.-]*)(=|%3D)[^\s&,;'\")\]}]+"
)
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/@\s]*:[^/@\s]*@")
_FIRST_CLASS = re.compile(r"(?:[\w$]+\.)+([\w$]+):\s+")


@attrs.frozen
class Fault:
    """One Java exception, with its causes."""

    kinds: tuple[str, ...]
    """Names of the classes of the exception and its causes, with their superclasses and the
    classes that a server named in its answer."""
    message: str
    """The first meaningful line of the message, without secrets."""
    root: str = ""
    """The same of the last cause, if it differs."""

    def is_a(self, *names: str) -> bool:
        """Return whether the exception or one of its causes is of one of these classes."""
        return any(name in self.kinds for name in names)

    def __str__(self) -> str:
        """Render ``ConnectException: Connection refused (cause: ...)``."""
        name = self.kinds[0].rpartition(".")[2].rpartition("$")[2] if self.kinds else ""
        text = f"{name}: {self.message}" if self.message else name
        return f"{text} (cause: {self.root})" if self.root else text


def describe(error: Any) -> Fault:
    """Return the description of *error*, a ``java.lang.Throwable``."""
    kinds: list[str] = []
    messages: list[str] = []
    while error is not None and len(messages) < _DEEPEST:
        names: list[str] = []
        kind = error.getClass()
        while kind is not None:
            names.append(str(kind.getName()))
            kind = kind.getSuperclass()
        names.pop()  # java.lang.Object
        if _REMOTE in names:
            # The class that the server threw; the message is the whole stack trace there.
            names.insert(0, str(error.getClassName()))
        kinds += names
        messages.append(_line(error.getMessage()))
        error = error.getCause()
    first = next((message for message in messages if message), "")
    last = messages[-1]
    root = "" if not last or last in first else last
    return Fault(tuple(dict.fromkeys(kinds)), first, root)


def mask(text: str) -> str:
    """Return *text* with the values of tokens, passwords and keys replaced by ``***``. Pure."""
    return _USERINFO.sub(r"\1***@", _SECRET.sub(r"\1\2***", text))


def _line(message: Any) -> str:
    """Return the first line outside a stack trace, without secrets, cut to a readable length."""
    lines = "" if message is None else str(message)
    for raw in lines.splitlines():
        line = raw.strip()
        if line and not line.startswith("at "):
            # A server's message begins with its class, which is already in `Fault.kinds`.
            text = mask(_FIRST_CLASS.sub("", line, count=1) or line)
            return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return ""


OLDEST_JAVA = 11
"""Hadoop also runs on Java 8, but JPype 1.7 has class files of Java 9."""
_LOG4J = Path(__file__).with_name("log4j.properties")

# Measured with an AMRMClient, an NMClient and HDFS in one process: 15 MiB of heap, 26 of metaspace
# and 5 of code are in use. Without the four limits of the heap Java takes all that -Xmx allows
# before it collects garbage, some 20 MiB for nothing.
_FRUGAL = (
    "-Xrs",  # signals stay Python's
    # With -Xrs Java opens a socket in /tmp for `jcmd` and `jstack` at its start. Only an orderly
    # exit removes the file: it would stay after `leave` or a kill.
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
    """The arguments that a JVM was started with."""

    classpath: tuple[str, ...]
    heap_mib: int
    java_home: str | None
    options: tuple[str, ...]


@attrs.define
class _Process:
    """The JVM of this process; JPype can start only one."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    started: _Needs | None = None


_process = _Process()


def start(
    classpath: tuple[str, ...],
    heap_mib: int,
    java_home: str | None = None,
    options: tuple[str, ...] = (),
) -> None:
    """Start the JVM of this process; a second call with the same arguments does nothing.

    Any thread may call it. Takes 0.3 to 1 s. A process with a JVM should end by `leave`.

    Args:
        classpath: Directories and jars, without ``dir/*``.
        heap_mib: The maximum size of Java's heap, MiB.
        java_home: Java's directory; None to let JPype search for it.
        options: Further options of the JVM.

    Raises:
        ProviderMissingError: JPype is not installed.
        LaunchError: There is no Java, or it is too old (TARN-3122); or the JVM cannot start, as
            when it runs with other arguments, or faulthandler is enabled (TARN-3123).
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
    """Return whether this process has a JVM. Any thread may call it."""
    return _process.started is not None


def ensure(heap_mib: int, java_home: str | None = None, options: tuple[str, ...] = ()) -> None:
    """Start a JVM with an empty classpath, unless this process has one already.

    This is for users of an `IsolatedClassLoader`, which works with any JVM. The parameters and the
    errors are those of `start`.
    """
    with _process.lock:
        running = _process.started is not None
    if not running:
        start((), heap_mib, java_home, options)


def load(name: str, loader: Any = None) -> Any:
    """Return the Java class *name*, such as ``org.apache.hadoop.conf.Configuration``.

    Args:
        name: The name with its package.
        loader: The ``java.lang.ClassLoader`` to use; None for the classpath.

    Raises:
        LaunchError: There is no such class (TARN-3120), or no JVM (TARN-3123).
    """
    import jpype  # noqa: PLC0415

    if not jpype.isJVMStarted():
        raise _not_started("no JVM was started in this process")
    # JPype raises TypeError for a missing class, and a class loader its own exceptions.
    absent = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")
    try:
        return jpype.JClass(name) if loader is None else jpype.JClass(name, loader=loader)
    except (TypeError, *map(jpype.JClass, absent)) as error:
        raise LaunchError(
            "java",
            f"no jar on the classpath has the class {name}",
            code="TARN-3120",
            next_step="Check that runtime.options.hadoop_home names a complete Hadoop client.",
        ) from error


def implemented(interface: Any, methods: Mapping[str, Callable[..., Any]]) -> Any:
    """Return a Java object of *interface* whose *methods* are implemented in Python.

    Java calls them on its own threads. It gets their Java exceptions unchanged, and their Python
    exceptions as a ``RuntimeException``.
    """
    import jpype  # noqa: PLC0415

    return jpype.JProxy(interface, dict=dict(methods))


class IsolatedClassLoader:
    """A class loader with its own jars. Needs the JVM of this process; any thread.

    It is for programs that need other versions of jars than those on the classpath. It sees only
    its own jars and the JDK's classes, and the classpath does not see its jars. A class on both
    sides exists twice, and its objects cannot be passed to the other side; classes of the JDK
    (``String``, ``HashSet``) are shared. Loaded classes stay until the process ends.

    Args:
        entries: Jars, and existing directories with resources, in the order of the search.

    Raises:
        LaunchError: One of *entries* does not exist (TARN-3120), or there is no JVM.
    """

    def __init__(self, entries: Sequence[Path]) -> None:
        # Java takes a directory for one only if it exists at this time.
        missing = [str(entry) for entry in entries if not entry.exists()]
        if missing:
            found = f"not found: {', '.join(missing)}"
            raise LaunchError("java", found, code="TARN-3120")
        file, loader = load("java.io.File"), load("java.lang.ClassLoader")
        urls = [file(str(entry)).toURI().toURL() for entry in entries]
        # The parent is the JDK's loader. By default it is the classpath, with all that clashes.
        self._loader = load("java.net.URLClassLoader")(urls, loader.getPlatformClassLoader())

    def load(self, name: str) -> Any:
        """Return the Java class *name* from these jars or the JDK.

        Raises:
            LaunchError: There is no such class (TARN-3120).
        """
        try:
            return load(name, self._loader)
        except LaunchError as error:
            found = f"none of these jars has the class {name}"
            raise LaunchError("java", found, code=error.code) from error

    def implemented(self, name: str, methods: Mapping[str, Callable[..., Any]]) -> Any:
        """Return an object of this loader's interface *name*; see `tarn.java.jvm.implemented`."""
        return implemented(self.load(name), methods)

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """Make this the context loader of the current thread meanwhile."""
        # Frameworks find their parts (configuration, services, parsers) through the context loader,
        # and new threads inherit it. A Python thread has none, and the main one has the classpath.
        thread = load("java.lang.Thread").currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)
        try:
            yield
        finally:
            thread.setContextClassLoader(before)


def throwable() -> type[Exception]:
    """Return ``java.lang.Throwable``, for an ``except``."""
    found: type[Exception] = load("java.lang.Throwable")
    return found


def leave(status: int) -> NoReturn:
    """End this process at once; only log handlers and standard streams are flushed."""
    # An orderly end would wait for Java's own threads. And if a Java call returns while Python
    # finalizes, Python before 3.14 ends its thread inside JPype's C++ code, which kills the process
    # by SIGABRT: seen with daemon threads, and once in a process that had none of its own.
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _start(needs: _Needs) -> None:
    jpype = import_jpype()
    # Hadoop leaves non-daemon threads behind, and JPype would wait for them at exit.
    jpype.config.destroy_jvm = False
    jpype.config.onexit = False
    library = _library(needs.java_home)
    # With an empty classpath nothing logs, and the property would reach isolated class loaders.
    configured = not needs.classpath or _has_log4j(needs.classpath)
    logging = () if configured else (f"-Dlog4j.configuration={_LOG4J.as_uri()}",)
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


def import_jpype() -> ModuleType:
    """Import JPype, without numpy.

    Raises:
        ProviderMissingError: It is not installed.
    """
    # JPype imports numpy if it is installed, for arrays, which are not used here: 21 MiB and 0.3 s
    # in every master (measured). So numpy is hidden during this import.
    hidden = "numpy" not in sys.modules and "jpype" not in sys.modules
    if hidden:
        sys.modules["numpy"] = None  # type: ignore[assignment] # makes `import numpy` fail
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
    """Return ``libjvm`` of *java_home* after checking its version; None lets JPype search."""
    if java_home is None:
        return None
    home = Path(java_home)
    version = java_version(home)
    if version is not None and version < OLDEST_JAVA:
        raise _no_java(f"Java {version} at '{java_home}' is too old")
    for place in ("lib/server", "jre/lib/server", "lib/client"):
        library = home / place / "libjvm.so"
        if library.is_file():
            return str(library)
    raise _no_java(f"'{java_home}' has no lib/server/libjvm.so")


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
