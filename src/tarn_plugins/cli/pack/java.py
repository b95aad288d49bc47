"""Bring a Java for nodes without a recent one: made by jlink, or copied."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tarn.errors import ConfigError, ProviderError
from tarn.java import OLDEST_JAVA

__all__ = ["bring", "version"]

# Hadoop's client needs LDAP, Kerberos and TLS; its metrics need the beans of java.desktop.
MODULES = (
    *("java.base", "java.desktop", "java.instrument", "java.logging", "java.management"),
    *("java.naming", "java.rmi", "java.security.jgss", "java.security.sasl", "java.sql"),
    *("java.xml", "java.xml.crypto", "jdk.charsets", "jdk.crypto.ec", "jdk.management"),
    *("jdk.naming.dns", "jdk.net", "jdk.security.auth", "jdk.security.jgss", "jdk.unsupported"),
    "jdk.zipfs",
)
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)[^"]*"', re.MULTILINE)
_ENOUGH_S = 300.0
_USELESS = shutil.ignore_patterns("src.zip", "jmods", "include", "man", "demo", "sample", "*.jsa")
# Libraries of java.desktop that need those of X11 and sound, which no node has.
_FOR_SCREENS = re.compile(
    r"lib(awt_xawt|fontmanager|freetype|javajpeg|jawt|jsound|lcms|mlib_image|splashscreen)\.so"
)
_TRUSTED = Path("lib", "security", "cacerts")


def version(home: Path) -> int:
    """Return the major version of the Java in *home*.

    Raises:
        ConfigError: There is no Java, or it is too old.
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
    """Put a Java into *into*: the modules that Hadoop needs of a JDK, or a whole JRE.

    Raises:
        ProviderError: jlink failed (TARN-3196).
        OSError: It cannot be copied.
    """
    jlink, known = home / "bin" / "jlink", home / "jmods"
    if jlink.is_file() and known.is_dir():
        modules = [name for name in MODULES if (known / f"{name}.jmod").is_file()]
        _link(jlink, known, modules, into)
    else:
        # A distribution's Java has links to /etc; copytree copies their targets.
        shutil.copytree(home, into, ignore=_USELESS, ignore_dangling_symlinks=True)
    for library in (into / "lib").glob("*.so"):
        if _FOR_SCREENS.fullmatch(library.name):
            library.unlink()
    trusted = home / _TRUSTED
    if trusted.is_file() and not (into / _TRUSTED).exists():
        shutil.copyfile(trusted, into / _TRUSTED)


def _link(jlink: Path, known: Path, modules: Iterable[str], into: Path) -> None:
    # Not compressed here: the archive is, and an uncompressed Java starts faster.
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
