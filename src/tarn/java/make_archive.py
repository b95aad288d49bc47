"""Make an archive of classes in the background: ``python -m tarn.java.make_archive``.

Its arguments are the archive's file, the list of classes, Java's directory and the classpath. It
takes 3 to 15 s of one processor, which it leaves to everybody else.
"""

import fcntl
import fnmatch
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["main", "make"]

_NICEST = 19
_WITHIN_S = 300.0
_ABANDONED_AFTER_S = 3600.0
# One archive has 40 MB. An update of Hadoop or Java needs another one.
_MOST = 3
# Hadoop's configuration, of which nodes may have more files than this machine.
_CONFIGURATION = ("*-site.xml", "log4j*", "logback*", "ssl-*.xml", "*-policy.xml", "*.conf")
_DUMP = (
    "-Xshare:dump",
    "-Xmx512m",
    "-XX:+UseG1GC",  # only with it Java archives objects, which any collector can use
    "-Xlog:disable",
)


def make(file: Path, listed: Path, java_home: Path, classpath: Sequence[str]) -> bool:
    """Make the archive *file*, and return whether it was made.

    It is not made if it exists, if another process makes it, or if it would change what the
    classpath means. A *file* that could not be made is left empty.

    Args:
        file: The archive. It appears as a whole.
        listed: List of classes that a JVM wrote; it is removed.
        java_home: Java's directory.
        classpath: Jars, and the directories behind them.
    """
    try:
        with (file.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.exists() and file.stat().st_size:
                return False
            made = _fits(classpath) and _dump(file, listed, java_home, classpath)
            if not made:
                file.touch()  # it is tried again a day after this time
            _tidy(file.parent)
            return made
    except BlockingIOError:
        return False
    finally:
        listed.unlink(missing_ok=True)


def _fits(classpath: Iterable[str]) -> bool:
    try:
        return not hidden(classpath)
    except (OSError, zipfile.BadZipFile):
        return False  # Java skips a jar that it cannot read, which is for a start without archive


def hidden(classpath: Iterable[str]) -> frozenset[str]:
    """Return the configuration files that a jar would hide from behind the jars.

    An archive needs all jars before all directories. Usually a directory of configuration is first.
    """
    entries = [Path(entry) for entry in classpath]
    own = {file.name for entry in entries if entry.is_dir() for file in entry.iterdir()}
    inside = set[str]()
    for jar in entries:
        if not jar.is_dir():
            with zipfile.ZipFile(jar) as opened:
                inside.update(name for name in opened.namelist() if "/" not in name)
    configuration = {name for kind in _CONFIGURATION for name in fnmatch.filter(inside, kind)}
    return frozenset(configuration | own & inside)


def _dump(file: Path, listed: Path, java_home: Path, classpath: Iterable[str]) -> bool:
    jars = [entry for entry in classpath if not Path(entry).is_dir()]
    # Next to *file*, so that one rename makes it appear.
    with tempfile.TemporaryDirectory(prefix=f"{file.stem}.", dir=file.parent) as folder:
        classes, new = Path(folder, "classes"), Path(folder, "new.jsa")
        # The process that wrote it left without Java's own exit: its last line may be cut.
        classes.write_bytes(listed.read_bytes().rpartition(b"\n")[0] + b"\n")
        command = (
            *(str(java_home / "bin" / "java"), *_DUMP),
            *(f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={new}"),
            *("-cp", ":".join(jars)),
        )
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_WITHIN_S,
                check=True,
            )
            new.chmod(0o600)
            new.replace(file)
        except (OSError, subprocess.SubprocessError):
            return False
    return True


def _tidy(folder: Path) -> None:
    """Remove the oldest archives, and the lists of processes that were killed."""
    archives = sorted(folder.glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in archives[_MOST:]:
        old.unlink(missing_ok=True)
    for left in folder.glob("*.list"):
        if time.time() - left.stat().st_mtime > _ABANDONED_AFTER_S:
            left.unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Run with the arguments of `make`; return 0 if it was made."""
    os.nice(_NICEST)
    file, listed, java_home, *classpath = arguments
    return 0 if make(Path(file), Path(listed), Path(java_home), classpath) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
