"""Starts the JVM of a process that uses Hadoop's clients, with an archive of their classes."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import TarnError
from tarn.java import jvm
from tarn.java.archive import ClassArchive, archive_for
from tarn.java.classpath import hadoop_classpath, java_home, kerberos_options

__all__ = ["HadoopJvm"]


@attrs.frozen
class HadoopJvm:
    """How a process starts its JVM."""

    heap_mib: int
    hadoop_home: str | None = None
    """None: `hadoop_classpath` finds it."""
    java_home: str | None = None
    """None: `java_home` finds it."""
    options: tuple[str, ...] = ()
    """Further options of the JVM."""
    archives: str = ""
    """Folder of the archives, which only the user may write to; empty: use none."""
    record: bool = False
    """Whether to list the classes for an archive that does not exist."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "HadoopJvm":
        """Return the one whose fields `attrs.asdict` wrote, also as JSON."""
        return cls(**{**plain, "options": tuple(plain["options"])})

    def start(self, environ: Mapping[str, str]) -> ClassArchive | None:
        """Start the JVM, unless it runs; return its archive, which need not exist.

        Any thread may call it. A second call with the same settings has the result of the first.

        Raises:
            ProviderMissingError: JPype is not installed.
            LaunchError: Java or Hadoop is missing or too old, or this process has another JVM.
        """
        with _process.lock:
            # Only once: the archive may appear meanwhile, and a failure may have taken long.
            if _process.settings != self:
                _process.error = None
                try:
                    _process.archive = self._start(environ)
                except TarnError as error:
                    _process.error = error
                _process.settings = self
            if _process.error is not None:
                raise _process.error
            archive = _process.archive
        thread = jvm.load("java.lang.Thread").currentThread()
        if thread.getContextClassLoader() is None:  # as on each thread that did not start the JVM
            thread.setContextClassLoader(jvm.load("java.lang.ClassLoader").getSystemClassLoader())
        return archive

    def warm_up(self) -> None:
        """Load what every user of Hadoop's clients needs, then detach this thread from Java."""
        try:
            conf = jvm.load("org.apache.hadoop.yarn.conf.YarnConfiguration")()
            conf.get("fs.defaultFS")  # loads the parser of the configuration's files
            jvm.load("org.apache.hadoop.fs.FileSystem").getFileSystemClass("hdfs", conf)
        finally:
            # A thread that ends attached leaves Java's guard pages in memory that others reuse.
            jvm.load("java.lang.Thread").detach()

    def _start(self, environ: Mapping[str, str]) -> ClassArchive | None:
        java = java_home(environ, self.java_home)
        # The script that lists Hadoop's jars also starts Java; it must take the same one.
        seen = {**environ, "JAVA_HOME": java} if java else environ
        classpath = hadoop_classpath(seen, self.hadoop_home)
        options = (*self.options, *kerberos_options(environ))
        archive = archive_for(Path(self.archives), java, classpath) if self.archives else None
        if archive is not None and archive.exists:
            classpath, options = archive.classpath, (*options, *archive.using())
        elif archive is not None and self.record and archive.wanted:
            options = (*options, *archive.recording())
        jvm.start(classpath, self.heap_mib, java, options)
        return archive


@attrs.define
class _HadoopProcess:
    """The JVM of this process, if it was started here."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    settings: HadoopJvm | None = None
    error: TarnError | None = None
    """Why it was not started with *settings*."""
    archive: ClassArchive | None = None


_process = _HadoopProcess()
