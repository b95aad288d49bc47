"""What the probe's container runs: a script that never changes, for any POSIX shell. Pure.

It needs no file of HDFS: script, launch file and run script stand in the container's environment,
where every byte outside letters and digits is an octal escape of ``printf %b``, and the constant
command writes them into the container's directory. What a user wrote (paths, ports) travels in the
launch file, as it does for an instance.

Each fact is a line ``tarn-probe NAME=VALUE`` in a file named ``*stderr*``, of which YARN puts the
last 4096 bytes into the diagnostics of a container that fails; so it always ends with `EXIT_CODE`.
The most important facts come last.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from tarn_plugins.runtime.yarn.launch import launch_file

__all__ = ["COMMAND", "MARK", "ProbeInputs", "environment"]

# How each line of a fact begins.
MARK: Final = "tarn-probe "
# Not 0, for YARN's sake; no shell, no signal and no executor of YARN's ends with it.
EXIT_CODE: Final = 90
# Seconds for which the container listens for a client.
LISTEN_S: Final = 6
# Where the script lies in a container's directory.
NAME: Final = ".tarn/probe"

# Variable of YARN's environment to the file that the command makes of it.
_FILES = {
    "TARN_PROBE_RUN": launch_file.SCRIPT,
    "TARN_PROBE_LAUNCH": launch_file.LAUNCH,
    "TARN_PROBE_SCRIPT": NAME,
}


def _command() -> str:
    # YARN wraps it in `bash -c "..."`: the outer shell puts the variables between the quotes.
    made = "".join(f"printf %b '${name}' >{file} && " for name, file in _FILES.items())
    log = "</dev/null 1>/dev/null 2><LOG_DIR>/probe.stderr"
    return (
        f"mkdir -p -m 700 .tarn && {made}unset {' '.join(_FILES)} && "
        f"exec sh {launch_file.SCRIPT} {log}"
    )


# The command of every probe's container.
COMMAND: Final = _command()


@attrs.frozen
class ProbeInputs:
    """What one container is to find out besides what it finds by itself."""

    python: str = ""
    """Interpreter to try; empty: none is needed."""
    targets: tuple[str, ...] = ()
    """``host:port`` that it should reach."""
    ports: tuple[int, ...] = ()
    """Where to listen for the client: at the first one that is free; none: nowhere."""
    word: str = ""
    """What the client says to be told from anybody else; no secret."""
    listen_s: int = LISTEN_S
    environ: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """What a master or an instance would get, too: ``JAVA_HOME``, ``HADOOP_HOME``."""


def environment(question: ProbeInputs) -> dict[str, str]:
    """Return the environment of the container: letters, digits and backslashes only.

    Raises:
        LaunchError: A value cannot be passed to any program (a NUL byte).
    """
    launch = launch_file.encode(
        [
            "sh",
            NAME,
            question.word,
            ",".join(map(str, question.ports)),
            str(question.listen_s),
            *question.targets,
        ],
        {
            **question.environ,
            "TARN_PROBE_PYTHON": question.python,
            "TARN_PROBE_CODE": _PYTHON,
            "TARN_PROBE_LISTEN": _LISTEN,
            "TARN_PROBE_CONNECT": _CONNECT,
        },
    )
    content = (launch_file.RUN, launch, SCRIPT)
    escaped = map(launch_file.escaped, content)
    return {name: data.decode() for name, data in zip(_FILES, escaped, strict=True)}


# Each of the three is for any Python that a node may have, 2.7 included: too old is a fact, too.
_PYTHON = r"""
import sys
def say(name, value):
    sys.stdout.write("%s=%s\n" % (name, value))
say("python_version", ".".join(map(str, sys.version_info[:3])))
say("python_home", sys.prefix)
try:
    import ctypes.util, sysconfig, os
    folder = sysconfig.get_config_var("LIBDIR") or ""
    names = [sysconfig.get_config_var(name) or "" for name in ("INSTSONAME", "LDLIBRARY")]
    there = any(".so" in name and os.path.exists(os.path.join(folder, name)) for name in names)
    there = there or ctypes.util.find_library("python%d.%d" % sys.version_info[:2])
    say("python_lib", "yes" if there else "no")
except Exception:
    pass
try:
    from importlib.metadata import version
    say("tarn_other", version("tarn"))
except Exception:
    pass
try:
    import tarn
    try:
        from importlib.metadata import version
        say("tarn_version", version("tarn-orchestrator"))
    except Exception:
        say("tarn_version", "unknown")
except BaseException as error:
    say("tarn_error", "%s: %s" % (type(error).__name__, error))
try:
    from importlib.util import find_spec
    wanted = ["jpype", "uvicorn", "httpx"]
    say("python_lacks", " ".join(name for name in wanted if find_spec(name) is None))
except Exception:
    pass
"""
_LISTEN = r"""
import os, socket, sys, time
word, ports, seconds = sys.argv[1].encode(), sys.argv[2].split(","), float(sys.argv[3])
end = time.time() + seconds
host = os.environ.get("NM_HOST", "")
listener = None
for port in ports:
    family = socket.AF_INET
    try:
        found = socket.getaddrinfo(host or None, int(port), 0, socket.SOCK_STREAM, 0,
                                   socket.AI_PASSIVE)[0]
        listener = socket.socket(found[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
        listener.listen(4)
        break
    except Exception as error:
        sys.stdout.write("port_error=%s: %s\n" % (port, error))
        listener = None
if listener is not None:
    sys.stdout.write("port=%s\n" % port)
    heard = False
    while not heard and time.time() < end:
        listener.settimeout(max(0.1, end - time.time()))
        try:
            talk = listener.accept()[0]
            talk.settimeout(1)
            if talk.recv(64) == word:
                talk.sendall(word[::-1])
                heard = True
            talk.close()
        except Exception:
            pass
    sys.stdout.write("port_heard=%s\n" % ("yes" if heard else "no"))
"""
_CONNECT = r"""
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
"""

# `say` cuts a value: all lines together must stay below 4096 bytes. `limited` bounds a program that
# may hang (nvidia-smi, a network mount); `late` leaves out what is slow once time is short, so that
# the facts that are known arrive. Nothing here is evaluated that came from outside.
# The script itself.
SCRIPT: Final = rf"""# tarn doctor --probe: looks, says, changes nothing.
say() {{ printf '{MARK}%s=%.96s\n' "$1" "$2" >&2; }}
joined() {{ tr '\n' ' '; }}
has() {{ command -v "$1" >/dev/null 2>&1; }}
limited() {{
  _t=$1; shift
  if has timeout; then timeout "$_t" "$@"; else "$@"; fi
}}
late() {{ [ $(($(date +%s) - begun)) -gt 15 ]; }}
lines() {{
  while IFS= read -r _l; do say "${{_l%%=*}}" "${{_l#*=}}"; done
}}
connects() {{
  if has bash && has timeout; then
    timeout 3 bash -c 'exec 3<>/dev/tcp/$0/$1' "$1" "$2" >/dev/null 2>&1 && echo yes || echo no
  elif [ "$py" ]; then
    "$py" -I -c "$TARN_PROBE_CONNECT" "$1" "$2" >/dev/null 2>&1 && echo yes || echo no
  elif has nc; then
    limited 4 nc -z -w 3 "$1" "$2" >/dev/null 2>&1 && echo yes || echo no
  else
    echo unknown
  fi
}}
begun=$(date +%s)
word=$1 ports=$2 seconds=$3
shift 3
say begin 1
py=
if [ "$TARN_PROBE_PYTHON" ] && [ -x "$TARN_PROBE_PYTHON" ]; then
  py=$TARN_PROBE_PYTHON
elif has python3; then
  py=python3
fi
listening=
if [ "$ports" ] && [ "$py" ]; then
  "$py" -I -c "$TARN_PROBE_LISTEN" "$word" "$ports" "$seconds" >.tarn/listened 2>/dev/null &
  listening=$!
fi
say node "${{NM_HOST-}}"
say kernel "$(uname -sr)"
say locale "$(locale charmap 2>/dev/null || printf '%s' "${{LC_ALL:-${{LC_CTYPE:-$LANG}}}}")"
say umask "$(umask)"
say proxies "$(env | sed -n 's/^\([A-Za-z]*_[Pp][Rr][Oo][Xx][Yy]\)=..*/\1/p' | joined)"
has docker && say docker_client yes || say docker_client no
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then say cgroup v2
elif [ -d /sys/fs/cgroup/memory ] || [ -d /sys/fs/cgroup/cpu ]; then say cgroup v1
else say cgroup none; fi
say machine "$(uname -m)"
say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)"
say user "$(id -un 2>/dev/null)"
say uid "$(id -u)"
if has getent; then getent passwd "$(id -u)" >/dev/null && say account yes || say account no
else grep -q "^[^:]*:[^:]*:$(id -u):" /etc/passwd && say account yes || say account no; fi
say nofile "$(ulimit -n 2>/dev/null)"
say memlock "$(ulimit -l 2>/dev/null)"
room() {{ limited 4 df -Pk "$1" 2>/dev/null | awk 'NR == 2 {{ print $2, $4 }}'; }}
say shm "$(room /dev/shm)"
say disk "$(room .)"
say tmp "$(room /tmp)"
# a container of Docker's has processes of its own: the first is this one
[ $$ = 1 ] && say first yes || say first no
has tritonserver && say tritonserver "$(command -v tritonserver)" || say tritonserver
count=0
for device in /dev/nvidia[0-9]*; do [ -e "$device" ] && count=$((count + 1)); done
say gpu_devices $count
say cuda_visible "${{CUDA_VISIBLE_DEVICES-unset}}"
say nvidia_visible "${{NVIDIA_VISIBLE_DEVICES-unset}}"
if ! has nvidia-smi; then say gpus none
elif seen=$(limited 5 nvidia-smi -L 2>&1); then
  say gpus "$(printf '%s\n' "$seen" | grep -c '^GPU ')"
  say gpu_names "$(printf '%s\n' "$seen" | sed -n 's/^\(GPU [0-9]*: [^(]*\).*/\1/p' | joined)"
else
  say gpus failed
  say gpu_error "$(printf '%s\n' "$seen" | tail -n 1)"
fi
home=${{HADOOP_HOME:-${{HADOOP_COMMON_HOME-}}}}
hadoop=
if [ "$home" ]; then [ -f "$home/bin/hadoop" ] && hadoop=$home/bin/hadoop
else hadoop=$(command -v hadoop 2>/dev/null); fi
say hadoop_home "$home"
say hadoop "$hadoop"
if [ "$hadoop" ] && ! late; then
  jars=$(limited 8 "$hadoop" classpath --glob 2>.tarn/said | tr ':' '\n')
  jar=$(printf '%s\n' "$jars" | grep '/hadoop-common-[0-9][^/]*[.]jar$' | head -n 1)
  jar=${{jar##*/hadoop-common-}}
  say hadoop_version "$(printf '%s\n' "$jar" | sed 's/[^0-9.].*//; s/[.]*$//')"
  [ "$jars" ] || say hadoop_error "$(tail -n 1 .tarn/said)"
fi
at=0
for target in "$@"; do
  at=$((at + 1))
  late || say "reach_$at" "$(connects "${{target%:*}}" "${{target##*:}}")"
done
if [ "$TARN_PROBE_PYTHON" ]; then
  if [ ! -e "$TARN_PROBE_PYTHON" ]; then say python missing
  elif [ ! -x "$TARN_PROBE_PYTHON" ]; then say python denied
  elif late; then say python late
  elif limited 15 "$TARN_PROBE_PYTHON" -c "$TARN_PROBE_CODE" >.tarn/tried 2>.tarn/said; then
    say python ok
    lines <.tarn/tried
  else
    say python_code $?
    say python failed
    say python_error "$(tail -n 1 .tarn/said)"
  fi
fi
packed=$(sed -n 's/^python_home=//p' .tarn/tried 2>/dev/null)
java=
if [ "${{TARN_PROBE_JAVA-}}" ]; then java=$TARN_PROBE_JAVA/bin/java from=java_home
elif [ "$packed" ] && [ -x "$packed/jre/bin/java" ]; then java=$packed/jre/bin/java from=packed
elif [ "${{JAVA_HOME-}}" ]; then java=$JAVA_HOME/bin/java from=JAVA_HOME
elif has java; then java=$(command -v java) from=PATH; fi
if [ ! "$java" ]; then say java none
elif [ ! -x "$java" ]; then say java missing; say java_path "$java"; say java_from $from
elif ! late; then
  say java_from $from
  say java_path "$java"
  limited 10 "$java" -version >.tarn/version 2>&1 && say java ok || say java failed
  say java_version "$(sed -n 1p .tarn/version)"
  say java_vendor "$(sed -n 2p .tarn/version)"
fi
if [ "$listening" ]; then
  wait "$listening"
  lines <.tarn/listened
fi
now=$(date +%s%N 2>/dev/null)
case $now in *[!0-9]*|'') now=$(date +%s)000000000 ;; esac
[ ${{#now}} -gt 12 ] || now=${{now}}000000000
say clock "${{now%??????}}"
say end 1
exit {EXIT_CODE}
""".encode()
