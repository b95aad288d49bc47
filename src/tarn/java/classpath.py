"""Where Java is, and which jars are Hadoop's: asked of this machine, never brought along."""

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
    "kerberos_options",
]

_DEADLINE_S = 30.0
"""``hadoop classpath`` is a shell script over a few directories; a cold NFS takes seconds."""
OLDEST_HADOOP = (3, 3, 0)
"""The first Hadoop that has everything that is used here."""
_COMMON = re.compile(r"hadoop-common(?!.*-tests\.jar$)(?:-(?P<version>\d.*))?\.jar")
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)(?!\d)")
_TOLD = "common-version-info.properties"
"""In the jar itself (``org.apache.hadoop.util.VersionInfo``)."""


def hadoop_classpath(environ: Mapping[str, str], hadoop_home: str | None = None) -> tuple[str, ...]:
    """Return Hadoop's configuration directory and jars, as ``hadoop classpath`` lists them.

    Asked in this order: *hadoop_home*, ``HADOOP_HOME``, ``HADOOP_COMMON_HOME``, ``hadoop`` on
    ``PATH``; then ``CLASSPATH``, with ``dir/*`` replaced by its jars, since only the `java`
    command itself understands the star. ``HADOOP_CONF_DIR`` comes first where it is set. With
    *hadoop_home* the script sees no other installation's variables.

    Raises:
        LaunchError: No Hadoop (TARN-3120), *hadoop_home* or ``HADOOP_HOME`` without bin/hadoop
            among it; or one that is too old (TARN-3121).
    """
    script = _script(environ, hadoop_home)
    if script is not None:
        entries = _asked(script, _of_home(environ, hadoop_home) if hadoop_home else environ)
    elif environ.get("CLASSPATH"):
        entries = _expanded(environ["CLASSPATH"])
    else:
        raise _no_hadoop(
            "neither HADOOP_HOME, HADOOP_COMMON_HOME nor CLASSPATH is set, and no `hadoop` is on "
            "PATH"
        )
    conf = environ.get("HADOOP_CONF_DIR", "")
    whole = tuple(dict.fromkeys((conf, *entries) if conf else entries))
    _check(whole)
    return whole


def hadoop_version(entries: Iterable[str]) -> str:
    """Return the version of the ``hadoop-common`` jar among *entries*; '' where nothing tells it.

    The jar's own word counts: a vendor may link ``hadoop-common.jar`` to it. What cannot be read
    tells by its name.
    """
    for entry in entries:
        found = _COMMON.fullmatch(entry.rpartition("/")[2])
        if found is not None:
            return _inside(entry) or found["version"] or ""
    return ""


def hadoop_numbers(version: str) -> tuple[int, int, int] | None:
    """Return the three numbers of Apache's that a version begins with; None: it has none. Pure."""
    found = _NUMBERS.match(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def dotted(numbers: tuple[int, int, int]) -> str:
    """Return ``3.3.0``. Pure."""
    return ".".join(map(str, numbers))


def java_home(
    environ: Mapping[str, str], setting: str | None = None, prefix: str | None = None
) -> str | None:
    """Return Java's directory.

    Asked in this order: *setting*, the one that was packed with this Python (``jre`` in *prefix*;
    None: ``sys.prefix``), ``JAVA_HOME``, that of ``java`` on ``PATH``. None: none of these tells;
    the JVM's own start looks in the usual places.
    """
    packed = Path(sys.prefix if prefix is None else prefix, "jre")
    brought = str(packed) if (packed / "bin" / "java").is_file() else None
    named = setting or brought or environ.get("JAVA_HOME")
    if named:
        return named
    java = shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return None
    # a distribution's `java` is a chain of links into the installation: <home>/bin/java
    home = Path(java).resolve().parent.parent
    return str(home) if home != Path("/usr") else None


def kerberos_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the JVM's options for ``KRB5_CONFIG``, which Java itself does not read. Pure."""
    krb5 = environ.get("KRB5_CONFIG")
    return (f"-Djava.security.krb5.conf={krb5}",) if krb5 else ()


def _script(environ: Mapping[str, str], hadoop_home: str | None) -> str | None:
    """Return the ``hadoop`` command; a home that is named and has none is an error."""
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
        # The script on PATH would read the files of this home, and end with a riddle. A common
        # home may hold jars only.
        if name != "HADOOP_COMMON_HOME":
            raise _no_hadoop(f"{name} = '{home}' has no bin/hadoop")
    return shutil.which("hadoop", path=environ.get("PATH"))


def _of_home(environ: Mapping[str, str], home: str) -> dict[str, str]:
    """Return *environ* for the script of *home*, which believes these variables more than itself.

    Its own place would be overridden by HADOOP_HOME, and the code it sources by the other two.
    """
    others = ("HADOOP_LIBEXEC_DIR", "HADOOP_COMMON_HOME")
    return {**{k: v for k, v in environ.items() if k not in others}, "HADOOP_HOME": home}


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
    entries: list[str] = []
    for entry in text.split(":"):
        if entry.endswith("/*"):
            entries += sorted(str(path) for path in Path(entry[:-2]).glob("*.[jJ][aA][rR]"))
        elif entry:
            entries.append(entry)
    return tuple(entries)


def _check(entries: tuple[str, ...]) -> None:
    if not any(entry.rpartition("/")[2].startswith("hadoop-common") for entry in entries):
        raise _no_hadoop(f"no hadoop-common*.jar is among its {len(entries)} entries")
    version = hadoop_version(entries)
    numbers = hadoop_numbers(version)
    if numbers is not None and numbers < OLDEST_HADOOP:
        raise LaunchError(
            "java",
            f"Hadoop {version} is too old",
            code="TARN-3121",
            right=f"{dotted(OLDEST_HADOOP)} or newer is needed",
            next_step="Name a newer Hadoop client in runtime.options.hadoop_home.",
        )


def _inside(jar: str) -> str:
    """Return the version that a jar says of itself; '' where it cannot be read."""
    try:
        with zipfile.ZipFile(jar) as opened:
            lines = opened.read(_TOLD).decode("latin-1").splitlines()
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
