"""Finds Java and the jars of Hadoop on this machine."""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tarn.errors import LaunchError

__all__ = [
    "OLDEST_HADOOP",
    "dotted",
    "hadoop_classpath",
    "hadoop_numbers",
    "hadoop_version",
    "java_home",
    "java_version",
    "kerberos_options",
]

# ``hadoop classpath`` is a shell script over a few directories; on a cold NFS it takes seconds.
_DEADLINE_S = 30.0
OLDEST_HADOOP = (3, 3, 0)
"""The first Hadoop with every API that is used here."""
_COMMON = re.compile(r"hadoop-common(?!.*-tests\.jar$)(?:-(?P<version>\d.*))?\.jar")
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)(?!\d)")
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
# The file in the jar that ``org.apache.hadoop.util.VersionInfo`` reads.
_VERSION_INFO = "common-version-info.properties"


def hadoop_classpath(environ: Mapping[str, str], hadoop_home: str | None = None) -> tuple[str, ...]:
    """Return Hadoop's configuration directory and jars, as ``hadoop classpath`` lists them.

    The first of these counts: *hadoop_home*, ``HADOOP_HOME``, ``HADOOP_COMMON_HOME``, ``hadoop`` on
    ``PATH``, ``CLASSPATH``. ``HADOOP_CONF_DIR`` comes first in the result if it is set.

    Raises:
        LaunchError: There is no Hadoop (TARN-3120), as when a named home has no bin/hadoop; or it
            is too old (TARN-3121).
    """
    script = _script(environ, hadoop_home)
    if script is not None:
        if hadoop_home:
            # The script would follow HADOOP_HOME rather than its own place, and the code that it
            # sources would follow the other two.
            others = ("HADOOP_LIBEXEC_DIR", "HADOOP_COMMON_HOME")
            kept = {name: value for name, value in environ.items() if name not in others}
            environ = {**kept, "HADOOP_HOME": hadoop_home}
        entries = _asked(script, environ)
    elif environ.get("CLASSPATH"):
        entries = _expanded(environ["CLASSPATH"])
    else:
        raise _no_hadoop(
            "neither HADOOP_HOME, HADOOP_COMMON_HOME nor CLASSPATH is set, and no `hadoop` is on "
            "PATH"
        )
    conf = environ.get("HADOOP_CONF_DIR", "")
    whole = tuple(dict.fromkeys((conf, *entries) if conf else entries))
    if not any(entry.rpartition("/")[2].startswith("hadoop-common") for entry in whole):
        raise _no_hadoop(f"no hadoop-common*.jar is among its {len(whole)} entries")
    version = hadoop_version(whole)
    numbers = hadoop_numbers(version)
    if numbers is not None and numbers < OLDEST_HADOOP:
        raise LaunchError(
            "java",
            f"Hadoop {version} is too old",
            code="TARN-3121",
            right=f"{dotted(OLDEST_HADOOP)} or newer is needed",
            next_step="Name a newer Hadoop client in runtime.options.hadoop_home.",
        )
    return whole


def hadoop_version(entries: Iterable[str]) -> str:
    """Return the version of the ``hadoop-common`` jar among *entries*; '' if it is unknown."""
    for entry in entries:
        found = _COMMON.fullmatch(entry.rpartition("/")[2])
        if found is not None:
            # From inside the jar first: a vendor may link ``hadoop-common.jar`` to it.
            return _inside(entry) or found["version"] or ""
    return ""


def hadoop_numbers(version: str) -> tuple[int, int, int] | None:
    """Return the first three numbers of a version; None if there are fewer. Pure."""
    found = _NUMBERS.match(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def dotted(numbers: tuple[int, int, int]) -> str:
    """Return the version with dots, such as ``3.3.0``. Pure."""
    return ".".join(map(str, numbers))


def java_home(
    environ: Mapping[str, str], setting: str | None = None, prefix: str | None = None
) -> str | None:
    """Return Java's directory; None if it is unknown, so that JPype must search for it.

    The first of these counts: *setting*, ``jre`` in *prefix* (by default ``sys.prefix``), where
    `tarn pack` puts it, ``JAVA_HOME``, the directory of ``java`` on ``PATH``.
    """
    jre = Path(sys.prefix if prefix is None else prefix, "jre")
    packed = str(jre) if (jre / "bin" / "java").is_file() else None
    named = setting or packed or environ.get("JAVA_HOME")
    if named:
        return named
    java = shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return None
    # a distribution's `java` is a chain of links into the installation: <home>/bin/java
    home = Path(java).resolve().parent.parent
    return str(home) if home != Path("/usr") else None


def java_version(home: Path) -> int | None:
    """Return the feature release of the Java in *home*, as 8 for ``1.8.0_392``, if known."""
    try:
        text = (home / "release").read_text("utf-8", errors="replace")
    except OSError:
        # a JRE 8 inside a JDK has no file of its own, and keeps its library elsewhere
        return 8 if list(home.glob("jre/lib/*/server/libjvm.so")) else None
    found = _RELEASE.search(text)
    return int(found[1]) if found else None


def kerberos_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the JVM's options for ``KRB5_CONFIG``, which Java itself does not read. Pure."""
    krb5 = environ.get("KRB5_CONFIG")
    return (f"-Djava.security.krb5.conf={krb5}",) if krb5 else ()


def _script(environ: Mapping[str, str], hadoop_home: str | None) -> str | None:
    """Return the ``hadoop`` command; raise an error if a named home has none."""
    named = {
        "runtime.options.hadoop_home": hadoop_home,
        "HADOOP_HOME": environ.get("HADOOP_HOME"),
        "HADOOP_COMMON_HOME": environ.get("HADOOP_COMMON_HOME"),
    }
    for name, home in named.items():
        if not home:
            continue
        script = Path(home) / "bin" / "hadoop"
        if script.is_file():
            return str(script)
        # The script on PATH would read the files of this home, and fail with an obscure message.
        # Only HADOOP_COMMON_HOME may be a directory with nothing but jars.
        if name != "HADOOP_COMMON_HOME":
            raise _no_hadoop(f"{name} = '{home}' has no bin/hadoop")
    return shutil.which("hadoop", path=environ.get("PATH"))


def _asked(script: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what ``hadoop classpath --glob`` prints."""
    try:
        done = subprocess.run(
            [script, "classpath", "--glob"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _no_hadoop(f"`{script} classpath --glob` took more than {_DEADLINE_S:g} s") from None
    except OSError as error:
        raise _no_hadoop(f"`{script}` could not be started: {error.strerror}") from error
    lines = done.stdout.decode(errors="replace").split("\n")
    # the list is one line; warnings of the script, if it prints any there, come before it
    listed = next((line for line in reversed(lines) if line.strip()), "")
    if done.returncode != 0 or not listed:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else f"exit status {done.returncode}"
        raise _no_hadoop(f"`{script} classpath --glob` failed: {why}")
    return _expanded(listed.strip())


def _expanded(text: str) -> tuple[str, ...]:
    """Split a classpath; ``dir/*`` becomes the jars in that directory, by name."""
    # Only the `java` command itself understands the star.
    entries: list[str] = []
    for entry in text.split(":"):
        if entry.endswith("/*"):
            entries += sorted(str(path) for path in Path(entry[:-2]).glob("*.[jJ][aA][rR]"))
        elif entry:
            entries.append(entry)
    return tuple(entries)


def _inside(jar: str) -> str:
    """Return the version inside a jar; '' if it cannot be read."""
    try:
        with zipfile.ZipFile(jar) as opened:
            lines = opened.read(_VERSION_INFO).decode("latin-1").splitlines()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return ""
    return next((x.partition("=")[2].strip() for x in lines if x.startswith("version=")), "")


def _no_hadoop(found: str) -> LaunchError:
    return LaunchError(
        "java",
        f"Hadoop's jars were not found: {found}",
        code="TARN-3120",
        next_step="Set runtime.options.hadoop_home, or HADOOP_HOME, to a directory with "
        "bin/hadoop, and HADOOP_CONF_DIR to the cluster's configuration.",
    )
