"""A Java for nodes that have none, or one that is too old: made by jlink, or copied."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tarn.errors import ConfigError, ProviderError
from tarn.java import OLDEST_JAVA

__all__ = ["MODULES", "bring", "version"]

MODULES = (
    *("java.base", "java.desktop", "java.instrument", "java.logging", "java.management"),
    *("java.naming", "java.rmi", "java.security.jgss", "java.security.sasl", "java.sql"),
    *("java.xml", "java.xml.crypto", "jdk.charsets", "jdk.crypto.ec", "jdk.management"),
    *("jdk.naming.dns", "jdk.net", "jdk.security.auth", "jdk.security.jgss", "jdk.unsupported"),
    "jdk.zipfs",
)
"""What Hadoop's client needs: LDAP, Kerberos, TLS; java.desktop is for the beans of its metrics."""
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)[^"]*"', re.MULTILINE)
_ENOUGH_S = 300.0
_USELESS = shutil.ignore_patterns("src.zip", "jmods", "include", "man", "demo", "sample", "*.jsa")
_FOR_SCREENS = re.compile(
    r"lib(awt_xawt|fontmanager|freetype|javajpeg|jawt|jsound|lcms|mlib_image|splashscreen)\.so"
)
"""Of java.desktop; they need libraries of X11 and sound, which no node has."""
_TRUSTED = Path("lib", "security", "cacerts")


def version(home: Path) -> int:
    """Return the major version of the Java in *home*.

    Raises:
        ConfigError: There is none, or it is too old.
    """
    where = f"--java {home}"
    try:
        told = _RELEASE.search((home / "release").read_text("utf-8", "replace"))
    except OSError as error:
        raise ConfigError(
            f"is not a Java: its file 'release' cannot be read ({error.strerror})",
            where=where,
            right="Expected a directory with bin/java and release, such as "
            "/usr/lib/jvm/java-17-openjdk-amd64.",
        ) from error
    found = int(told[1]) if told else 0
    if found < OLDEST_JAVA:
        raise ConfigError(
            f"holds Java {found or 'of no version'}",
            where=where,
            right=f"TARN needs {OLDEST_JAVA} or newer.",
        )
    return found


def bring(home: Path, into: Path) -> None:
    """Put a Java into the directory *into*: of a JDK what Hadoop needs, of a JRE all of it.

    Raises:
        ProviderError: jlink failed (TARN-3196).
        OSError: It cannot be copied.
    """
    jlink, known = home / "bin" / "jlink", home / "jmods"
    if jlink.is_file() and known.is_dir():
        modules = [name for name in MODULES if (known / f"{name}.jmod").is_file()]
        _link(jlink, known, modules, into)
    else:
        # links of a distribution lead out of it, to /etc: what they lead to is copied
        shutil.copytree(home, into, ignore=_USELESS, ignore_dangling_symlinks=True)
    for library in (into / "lib").glob("*.so"):
        if _FOR_SCREENS.fullmatch(library.name):
            library.unlink()
    trusted = home / _TRUSTED
    if trusted.is_file() and not (into / _TRUSTED).exists():
        shutil.copyfile(trusted, into / _TRUSTED)


def _link(jlink: Path, known: Path, modules: Iterable[str], into: Path) -> None:
    # uncompressed: the archive is compressed as a whole, and starts faster unpacked
    command = (
        *(str(jlink), "--module-path", str(known), "--add-modules", ",".join(modules)),
        *("--strip-java-debug-attributes", "--no-header-files", "--no-man-pages"),
        *("--output", str(into)),
    )
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ENOUGH_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(str(jlink), str(error)) from error
    if done.returncode:
        raise _failed(str(jlink), (done.stdout + done.stderr).decode(errors="replace").strip())


def _failed(jlink: str, said: str) -> ProviderError:
    return ProviderError(
        "pack",
        f"{jlink} made no Java: {said}",
        code="TARN-3196",
        next_step="Name another JDK, or a JRE, with --java.",
    )
