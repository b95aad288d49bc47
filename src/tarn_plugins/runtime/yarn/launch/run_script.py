"""The first thing in every container: a script that never changes, and reads the launch file.

It is made for any POSIX shell (dash, bash, busybox), evaluates nothing, and starts the program in
its own place: signals of YARN reach that one. The values stand in its memory only, until the
program has them.
"""

from typing import Final

from tarn_plugins.runtime.yarn.environment import DIRECTORY

__all__ = [
    "COMMAND",
    "LAUNCH",
    "LONGEST_TMP",
    "LOOK_EVERY_S",
    "MARK",
    "MASTER_COMMAND",
    "MODELS",
    "RUN",
    "RUN_NAME",
    "SCRIPT",
    "TMP",
]

SCRIPT: Final = ".tarn/run"
"""Where the script lies in a container's directory."""
LAUNCH: Final = ".tarn/launch"
"""Where the launch file lies."""
MODELS: Final = "models"
"""Where a localized repository lies in a container's directory."""
TMP: Final = ".tarn/tmp"
"""``TMPDIR`` of a container that is given none."""
LONGEST_TMP: Final = 60
"""Bytes of a ``TMPDIR`` that leave room for a socket's name."""
LOOK_EVERY_S: Final = 10
"""Seconds between two looks at how large a log has grown."""
MARK: Final = "instance-"
"""How the name of the file begins that lies next to an instance's log, and ends with its id."""
RUN_NAME: Final = "run"
"""The script's name in ``Layout.public``."""


def _command(out: str, err: str) -> str:
    # `exec`: the shell around it must not stay between YARN's signals and the program. The end of
    # a file named *stderr* goes into YARN's diagnostics. `>>`: a log that is cut begins again.
    redirected = f"</dev/null 1>><LOG_DIR>/{out} 2>><LOG_DIR>/{err}"
    return f"exec sh {SCRIPT} {redirected}"


COMMAND: Final = _command("triton.stderr", "triton.stderr")
"""The command of every instance's container: its log holds what its Python models print, too."""
MASTER_COMMAND: Final = _command("master.stdout", "master.stderr")
"""The command of a master's container."""

# Every variable of the script's own begins with _tarn_: `encode` lets nobody else have such a
# name, and none of them is left when the program starts. The decoded values are positional
# parameters: no variable of theirs can change how the script goes on before it has read all.
# `$(...)` drops newlines at the end, so an x is put behind the value and taken off again; with
# LC_ALL=C no byte together with that x can be taken for a character.
# A user of Docker's may have no entry in the image's /etc/passwd: HOME, USER and LOGNAME are what
# Python's getpass, and caches of numba, torch and Hugging Face, go by.
# A program in the packed environment is named by where that really lies: so does Python know it,
# and what is made for it is made once on a node, not once for each container.
# A log that has grown too large is copied and cut by a process next to the program, which begins
# before any value is read (it would keep them in its memory, and a shell reads ahead: so another
# program reads the first line), writes nothing, and ends when its parent is not the program any
# more: no pid of somebody else's can mislead it. What is written while a large log is copied is
# copied after it; what is written in the moment before the cut is lost, as with any such rotation.
# A container's directory has a long name, a Unix socket's may have 107 bytes, and what makes
# sockets in TMPDIR (multiprocessing, torch) would fail. So a long one is named by way of the
# program's directory: its pid is the shell's.
RUN: Final = rf"""# Starts what {LAUNCH} says, byte for byte; nothing is evaluated.
_tarn_fail() {{
  printf 'error: tarn: %s\n' "$1" >&2
  exit 70
}}
_tarn_show() {{
  [ -d "$1" ] || _tarn_fail "$1 is not there: this container was not started by Docker"
  [ -w "$1" ] || _tarn_fail "$1 of the image cannot be written by the user of this container"
  for _tarn_entry in "$PWD"/{MODELS}/*; do
    [ -e "$_tarn_entry" ] || continue
    ln -s "$_tarn_entry" "$1/" || _tarn_fail "$1 cannot hold a link to a model"
  done
}}
_tarn_keep() {{
  while sleep {LOOK_EVERY_S}; do
    read -r _tarn_a _tarn_b _tarn_c _tarn_parent _tarn_rest </proc/self/stat || exit 0
    [ "$_tarn_parent" = "$$" ] || exit 0
    for _tarn_log in "$2" "$3"; do
      [ -f "$_tarn_log" ] && [ "$(wc -c <"$_tarn_log")" -gt "$1" ] || continue
      cp "$_tarn_log" "$_tarn_log.1" || continue
      _tarn_a=$(($(wc -c <"$_tarn_log.1") + 1))
      tail -c "+$_tarn_a" "$_tarn_log" >>"$_tarn_log.1" && : >"$_tarn_log"
    done
  done
}}
_tarn_mark() {{
  [ -f "$1" ] || return 0
  printf '%s\n' "$2" >"${{1%/*}}/$2" || return 0
}}
_tarn_locale=${{LC_ALL-}} _tarn_had_locale=${{LC_ALL+yes}}
LC_ALL=C
set --
_tarn_variables=0 _tarn_whole= _tarn_home= _tarn_tmp= _tarn_python=
[ -r {LAUNCH} ] || _tarn_fail '{LAUNCH} cannot be read'
_tarn_line=$(head -n 1 {LAUNCH} 2>/dev/null)
case $_tarn_line in
  %*)
    _tarn_value=$(printf '%b' "${{_tarn_line#%}}")
    _tarn_keep "$_tarn_value" "$(readlink "/proc/$$/fd/1")" "$(readlink "/proc/$$/fd/2")" \
      </dev/null >/dev/null 2>&1 &
    ;;
esac
while IFS= read -r _tarn_line; do
  case $_tarn_line in
    '=') _tarn_whole=yes; break ;;
    HOME=*) _tarn_home=given ;;
    TMPDIR=*) _tarn_tmp=given ;;
  esac
  case $_tarn_line in
    -*) unset "${{_tarn_line#-}}"; continue ;;
    *=*) _tarn_variables=$((_tarn_variables + 1)) ;;
  esac
  _tarn_value=$(printf '%bx' "${{_tarn_line#[%:+@]}}")
  case $_tarn_line in
    %*) ;;
    :*) _tarn_mark "$(readlink "/proc/$$/fd/2" 2>/dev/null)" "${{_tarn_value%x}}" ;;
    @*) _tarn_show "${{_tarn_value%x}}" ;;
    +*) mkdir -p -- "${{_tarn_value%x}}" || _tarn_fail 'a directory cannot be made' ;;
    *) set -- "$@" "${{_tarn_value%x}}" ;;
  esac
done <{LAUNCH}
[ "$_tarn_whole" ] || _tarn_fail '{LAUNCH} is not whole'
[ "$_tarn_home" ] || export HOME="$PWD"
if [ ! "${{USER-}}" ]; then
  _tarn_user=$(id -un 2>/dev/null || id -u) && export USER="$_tarn_user"
fi
[ "${{LOGNAME-}}" ] || export LOGNAME="${{USER-}}"
if [ ! "$_tarn_tmp" ]; then
  _tarn_tmp=$PWD/{TMP}
  mkdir -p -m 700 -- "$_tarn_tmp" || _tarn_fail '{TMP} cannot be made'
  if [ ${{#_tarn_tmp}} -gt {LONGEST_TMP} ] && [ -w "/proc/$$/cwd/{TMP}" ]; then
    _tarn_tmp=/proc/$$/cwd/{TMP}
  fi
  export TMPDIR="$_tarn_tmp"
fi
if [ -d {DIRECTORY} ]; then
  _tarn_python=$(cd -P ./{DIRECTORY} && printf '%sx' "$PWD") \
    || _tarn_fail '{DIRECTORY} cannot be entered'
fi
if [ "$_tarn_had_locale" ]; then LC_ALL=$_tarn_locale; else unset LC_ALL; fi
while [ "$_tarn_variables" -gt 0 ]; do
  export "$1"
  shift
  _tarn_variables=$((_tarn_variables - 1))
done
case $1 in
  {DIRECTORY}/*)
    [ "$_tarn_python" ] || _tarn_fail 'there is no {DIRECTORY}, the packed environment'
    _tarn_value=${{_tarn_python%x}}/${{1#{DIRECTORY}/}}
    shift
    set -- "$_tarn_value" "$@"
    ;;
esac
unset _tarn_line _tarn_value _tarn_locale _tarn_had_locale _tarn_variables _tarn_whole \
  _tarn_home _tarn_tmp _tarn_user _tarn_entry _tarn_python
unset -f _tarn_fail _tarn_show _tarn_keep _tarn_mark
exec "$@"
""".encode()
"""The script: no secret in it, the same for all, so nodes keep it for everybody."""
