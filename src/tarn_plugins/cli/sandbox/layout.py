"""Write, read and remove the files of a sandbox, and the programs in its ``bin``.

Outside its directory, a sandbox only adds its host names to ``/etc/hosts``.
"""

import contextlib
import json
import os
import shlex
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from tarn.errors import ProviderError
from tarn.triton.folders import private_folder
from tarn_plugins.cli.sandbox.options import SandboxOptions

__all__ = ["ensure_hosts", "is_formatted", "lay_out", "remove", "shims", "written"]

_OPTIONS = "sandbox.json"
_OWN = ("bin", "data", "etc", "lib", "logs", "run", "share")

_CLIENT = "org.apache.hadoop.yarn.client.cli"
_MAINS: Mapping[str, Mapping[str, str]] = {
    "hadoop": {
        "credential": "org.apache.hadoop.security.alias.CredentialShell",
        "fs": "org.apache.hadoop.fs.FsShell",
        "jar": "org.apache.hadoop.util.RunJar",
        "version": "org.apache.hadoop.util.VersionInfo",
    },
    "hdfs": {
        "dfs": "org.apache.hadoop.fs.FsShell",
        "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
        "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
        "getconf": "org.apache.hadoop.hdfs.tools.GetConf",
    },
    "yarn": {
        "app": f"{_CLIENT}.ApplicationCLI",
        "application": f"{_CLIENT}.ApplicationCLI",
        "applicationattempt": f"{_CLIENT}.ApplicationCLI",
        "container": f"{_CLIENT}.ApplicationCLI",
        "logs": f"{_CLIENT}.LogsCLI",
        "node": f"{_CLIENT}.NodeCLI",
        "queue": f"{_CLIENT}.QueueCLI",
        "rmadmin": f"{_CLIENT}.RMAdminCLI",
        "version": "org.apache.hadoop.util.VersionInfo",
    },
}
_VERB_IS_AN_ARGUMENT = ("app", "application", "applicationattempt", "container")
_SCRIPT = """\
#!/bin/sh
# Written by `tarn sandbox`: the client side of its Hadoop.
set -eu
home={home}
conf=${{HADOOP_CONF_DIR:-$home/etc/hadoop}}
verb=${{1:-}}
case $verb in
classpath)
  if [ "${{2:-}}" = --glob ]; then
    set -- "$conf" "$home"/lib/*.jar
    IFS=:
    printf '%s\\n' "$*"
  else
    printf '%s\\n' "$conf:$home/lib/*"
  fi
  exit 0
  ;;
{cases}*.*) main=$verb; shift ;;
*)
  echo "{program}: this sandbox has no '$verb'; it has: classpath {verbs}, or a class" >&2
  exit 2
  ;;
esac
exec {java} -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \\
  --add-opens=java.base/java.lang=ALL-UNNAMED -Djava.net.preferIPv4Stack=true \\
  ${{KRB5_CONFIG:+"-Djava.security.krb5.conf=$KRB5_CONFIG"}} \\
  -Dhadoop.home.dir="$home" -cp "$conf:$home/lib/*" "$main" "$@"
"""

HOSTS = Path("/etc/hosts")
_MARK = "# tarn sandbox"


def written(directory: Path) -> SandboxOptions | None:
    """Return the options of the sandbox in *directory*; None if there is none."""
    try:
        return SandboxOptions.read(json.loads((directory / _OPTIONS).read_text("utf-8")))
    except FileNotFoundError:
        return None


def lay_out(
    directory: Path,
    options: SandboxOptions,
    texts: Mapping[str, str],
    programs: Mapping[str, str],
    jars: Iterable[Path],
) -> None:
    """Write, or replace, all files that daemons and clients read.

    Args:
        directory: The sandbox's.
        options: The sandbox's.
        texts: Path below *directory* -> content.
        programs: As *texts*, for executable files.
        jars: Files to link in ``lib``.
    """
    for name in ("run", "logs", "data/tmp", "lib"):
        private_folder(directory / name, 0o755)
    for old in (directory / "lib").iterdir():
        old.unlink()
    for jar in jars:
        (directory / "lib" / jar.name).symlink_to(jar)
    for path, text in texts.items():
        _write(directory / path, text, 0o644)
    for path, text in programs.items():
        _write(directory / path, text, 0o755)
    # Last: the directory counts as a sandbox once this file exists.
    _write(directory / _OPTIONS, json.dumps(attrs.asdict(options), indent=2), 0o644)


def is_formatted(directory: Path) -> bool:
    """Return whether the NameNode has been formatted."""
    return (directory / "data" / "nn" / "current" / "VERSION").is_file()


def remove(directory: Path) -> None:
    """Remove the sandbox's files, and its directory if that is then empty."""
    for name in _OWN:
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / _OPTIONS).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


def _write(file: Path, text: str, mode: int) -> None:
    private_folder(file.parent, 0o755)
    file.write_text(text, "utf-8")
    file.chmod(mode)


def shims(java: str, directory: str) -> dict[str, str]:
    """Return path below *directory* -> script; *java* is the program that they run."""
    return {
        f"bin/{program}": _SCRIPT.format(
            home=shlex.quote(directory),
            java=shlex.quote(java),
            program=program,
            cases="".join(
                f"{verb}) main={main}{'' if verb in _VERB_IS_AN_ARGUMENT else '; shift'} ;;\n"
                for verb, main in mains.items()
            ),
            verbs=" ".join(mains),
        )
        for program, mains in _MAINS.items()
    }


def resolve_host(name: str) -> str | None:
    """Return the IPv4 address of *name*; None if it has none."""
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def missing_hosts(wanted: Mapping[str, str], found: Callable[[str], str | None]) -> dict[str, str]:
    """Return the entries of *wanted* (name -> address) that do not resolve so. Pure."""
    return {name: address for name, address in wanted.items() if found(name) != address}


def ensure_hosts(
    wanted: Mapping[str, str],
    file: Path = HOSTS,
    found: Callable[[str], str | None] = resolve_host,
) -> None:
    """Add lines to *file* for the names that do not resolve to their addresses.

    Raises:
        ProviderError: This user may not add them, or they have no effect; it shows the lines.
    """
    absent = missing_hosts(wanted, found)
    if not absent:
        return
    lines = "".join(f"{address} {name} {_MARK}\n" for name, address in absent.items())
    try:
        with file.open("ab+") as out:  # which appends, also after the read
            if out.seek(0, os.SEEK_END):
                out.seek(-1, os.SEEK_END)
                if out.read(1) != b"\n":
                    lines = f"\n{lines}"
            out.write(lines.encode())
    except OSError as error:
        raise _not_there(absent, file, error.strerror or "cannot be written") from error
    still = missing_hosts(absent, found)
    if still:
        raise _not_there(
            still, file, "an earlier line, or another source of names, takes precedence"
        )


def _not_there(absent: Mapping[str, str], file: Path, why: str) -> ProviderError:
    lines = "\n".join(f"{address} {name}" for name, address in absent.items())
    return ProviderError(
        "sandbox",
        f"{len(absent)} host names of the sandbox do not have their addresses ({why})",
        code="TARN-3503",
        where=str(file),
        next_step=f"Add these lines to it:\n{lines}",
    )
