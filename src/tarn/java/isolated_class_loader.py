"""Jars of their own in the one JVM, unseen by Hadoop's, and blind to them.

Two programs that bring other versions of one jar cannot share a classpath. An island is a class
loader that knows its own jars and the JDK's classes, nothing else; the other way round nobody sees
what is in it. A class that both sides have exists twice, and an object of one side is not an
argument of the other's; what the JDK brings (``String``, ``HashSet``) is shared.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarn.errors import LaunchError
from tarn.java import jvm

__all__ = ["IsolatedClassLoader"]


class IsolatedClassLoader:
    """A class loader with its own jars. Needs the JVM of this process; any thread.

    One is never given back: what was loaded stays until the process ends.

    Args:
        entries: Jars, and directories for what is looked up as a resource, by precedence. A
            directory must exist: only then does Java see that it is one.

    Raises:
        LaunchError: One of *entries* is not there (TARN-3120), or there is no JVM.
    """

    def __init__(self, entries: Sequence[Path]) -> None:
        missing = [str(entry) for entry in entries if not entry.exists()]
        if missing:
            found = f"not found: {', '.join(missing)}"
            raise LaunchError("java", found, code="TARN-3120")
        file, loader = jvm.load("java.io.File"), jvm.load("java.lang.ClassLoader")
        urls = [file(str(entry)).toURI().toURL() for entry in entries]
        # The parent is the JDK's own: the default one is the classpath, with all that clashes.
        self._loader = jvm.load("java.net.URLClassLoader")(urls, loader.getPlatformClassLoader())

    def load(self, name: str) -> Any:
        """Return the Java class *name* as this island has it.

        Raises:
            LaunchError: Neither its jars nor the JDK have it (TARN-3120).
        """
        try:
            return jvm.load(name, self._loader)
        except LaunchError as error:
            found = f"none of these jars has the class {name}"
            raise LaunchError("java", found, code=error.code) from error

    def implemented(self, name: str, methods: Mapping[str, Callable[..., Any]]) -> Any:
        """Return an object of the island's interface *name*, with Python's *methods*.

        Java calls them, on its own threads.
        """
        return jvm.implemented(self.load(name), methods)

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """Make this the current thread's context loader, for what Java starts meanwhile.

        Frameworks look for their parts (configuration, services, parsers) through it, and threads
        inherit it. A thread of Python's has none at all, and the main one has the classpath's.
        """
        thread = jvm.load("java.lang.Thread").currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)
        try:
            yield
        finally:
            thread.setContextClassLoader(before)
