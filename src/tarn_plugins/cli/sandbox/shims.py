"""The programs in a sandbox's ``bin``, which look like those of an installation. Pure."""

import shlex
from collections.abc import Mapping

__all__ = ["shims"]

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


def shims(java: str, directory: str) -> dict[str, str]:
    """Return path below *directory* -> the script; *java* is the program that they run."""
    return {
        f"bin/{program}": _SCRIPT.format(
            home=shlex.quote(directory),
            java=shlex.quote(java),
            program=program,
            cases="".join(_case(verb, main) for verb, main in mains.items()),
            verbs=" ".join(mains),
        )
        for program, mains in _MAINS.items()
    }


def _case(verb: str, main: str) -> str:
    shift = "" if verb in _VERB_IS_AN_ARGUMENT else "; shift"
    return f"{verb}) main={main}{shift} ;;\n"
