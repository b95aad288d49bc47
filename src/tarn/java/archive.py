"""Archives of Hadoop's classes, from which a JVM starts faster (Java's class-data sharing).

A JVM without an archive lists the classes that it loads, and `tarn.java.make_archive` makes an
archive of them. Each build of Java and each set of jars has an archive of its own, found by its
name, so a stale one is never opened. Java itself checks the same again, and the file's checksums;
if something does not fit, it starts without any archive.
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from tarn.java.classpath import java_version

__all__ = ["ClassArchive", "archive_for"]

# Older ones are untested. Their archives cannot be moved in memory.
OLDEST = 17
_RETRY_AFTER_S = 86_400.0
# Part of the key: another number when archives are made in another way.
_EDITION = b"1"


@attrs.frozen
class ClassArchive:
    """The archive for one Java and one list of jars, which need not exist yet."""

    file: Path
    """``<folder>/<key>.jsa``. An empty file: none could be made."""
    java_home: str
    jars: tuple[str, ...]
    directories: tuple[str, ...]

    @property
    def classpath(self) -> tuple[str, ...]:
        """The classpath of a JVM that uses the archive: Java allows no directory before a jar."""
        return (*self.jars, *self.directories)

    @property
    def exists(self) -> bool:
        """Whether a JVM can use it."""
        return _size(self.file) > 0

    @property
    def wanted(self) -> bool:
        """Whether it should be made: it does not exist, and was not tried within a day."""
        try:
            found = self.file.stat()
        except OSError:
            return True
        return found.st_size == 0 and time.time() - found.st_mtime > _RETRY_AFTER_S

    @property
    def recorded(self) -> bool:
        """Whether this process has a list of its classes."""
        return self._list.exists()

    def using(self) -> tuple[str, ...]:
        """Return the options of a JVM that uses it, together with `classpath`."""
        return (
            f"-XX:SharedArchiveFile={self.file}",
            "-XX:+UnlockDiagnosticVMOptions",
            # Else its pages are changed for a random address, 0.1 s and 23 MiB for each process.
            "-XX:ArchiveRelocationMode=0",
            "-XX:+VerifySharedSpaces",  # Java would crash on a damaged one
            "-Xlog:cds=off",  # what does not fit is ignored silently
        )

    def recording(self) -> tuple[str, ...]:
        """Return the options of a JVM that lists its classes, for `make`."""
        return (f"-XX:DumpLoadedClassList={self._list}",)

    def make(self) -> None:
        """Start to make it from this process's list, in a process that outlives this one."""
        # That process has a time limit of its own, and nothing waits for it. It inherits the
        # environment, with the place of tarn, but no pipe.
        command = [sys.executable, "-P", "-m", "tarn.java.make_archive", str(self.file)]
        subprocess.Popen(
            [*command, str(self._list), self.java_home, *self.classpath],
            cwd=self.file.parent,  # not the user's, which may be unmounted meanwhile
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def forget(self) -> None:
        """Remove this process's list."""
        self._list.unlink(missing_ok=True)

    @property
    def _list(self) -> Path:
        return self.file.with_suffix(f".{os.getpid()}.list")


def archive_for(
    folder: Path, java_home: str | None, classpath: Iterable[str]
) -> ClassArchive | None:
    """Return the archive in *folder* for this Java and these jars; None if there can be none.

    Args:
        folder: Must exist, and only the user may write to it: Java runs what is in there.
        java_home: Java's directory; None if it is unknown.
        classpath: The directories and jars of an ordinary start.
    """
    if java_home is None or not (Path(java_home) / "bin" / "java").is_file():
        return None
    if (java_version(Path(java_home)) or 0) < OLDEST:
        return None
    entries = [entry for entry in classpath if Path(entry).exists()]
    directories = tuple(entry for entry in entries if Path(entry).is_dir())
    # Test jars of Hadoop have a core-site.xml of their own, which must not take precedence over
    # the user's in a directory behind them.
    named = (x for x in entries if x not in directories and not x.endswith("-tests.jar"))
    # Java compares paths: folders of links to the same jars, as sandboxes have, share an archive.
    jars = tuple(dict.fromkeys(map(os.path.realpath, named)))
    try:
        key = _key(Path(java_home), jars)
    except OSError:
        return None
    return ClassArchive(folder.absolute() / f"{key}.jsa", java_home, jars, directories)


def _key(java_home: Path, jars: Iterable[str]) -> str:
    digest = hashlib.sha256(_EDITION)
    for part in _identity(java_home, jars):
        digest.update(part + b"\0")
    return digest.hexdigest()[:32]


def _identity(java_home: Path, jars: Iterable[str]) -> Iterator[bytes]:
    """Yield what Java compares: its build, and path, size and time of each jar."""
    yield (java_home / "release").read_bytes()
    yield b"%d" % (java_home / "lib" / "server" / "libjvm.so").stat().st_size
    for jar in jars:
        found = Path(jar).stat()
        yield b"%s %d %d" % (os.fsencode(jar), found.st_size, int(found.st_mtime))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
