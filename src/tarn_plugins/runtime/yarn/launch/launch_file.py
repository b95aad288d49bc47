"""The launch file of a container, which no shell can misread, and the script that reads it. Pure.

YARN starts a container by a shell script, which expands its command and its environment. So the
command is a constant, and all values of users travel in this file, one on each line::

    %<escaped>        rotate standard output and standard error beyond this size
    :<escaped>        make an empty file of this name next to the logs
    -NAME             unset the variable NAME, set by YARN
    NAME=<escaped>    set it
    +<escaped>        make this directory
    @<escaped>        link every model of ``models`` in this directory
    <escaped>         one argument; the first is the program
    =                 the end; a file without it is incomplete

Every byte except letters and digits is written as an octal escape of ``printf %b``, so that it has
no special meaning.

Every container first runs the script, which never changes. It runs in any POSIX shell (dash, bash,
busybox), evaluates nothing, and replaces itself by the program, which so gets the signals of YARN.
It has the values only in its memory.
"""

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.environment import DIRECTORY

__all__ = [
    "COMMAND",
    "LAUNCH",
    "MARK",
    "MASTER_COMMAND",
    "MODELS",
    "RUN",
    "RUN_NAME",
    "SCRIPT",
    "LogFiles",
    "encode",
    "escaped",
]

_PLAIN = frozenset((string.ascii_letters + string.digits).encode())
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that some shell sets itself, or does not allow to set.
_SHELLS_OWN = re.compile(
    r"_|_tarn_.*|BASH.*|COMP_.*|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD"
    r"|LINENO|OPTERR|OPTIND|PIPESTATUS|POSIXLY_CORRECT|PPID|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM"
    r"|UID"
)
# The longest string that Linux passes to a program (``MAX_ARG_STRLEN`` without the NUL).
_LONGEST = 128 * 1024 - 1

Value = str | bytes

# The script's place in a container's directory.
SCRIPT: Final = ".tarn/run"
# The launch file's place.
LAUNCH: Final = ".tarn/launch"
# The place of a localized repository in a container's directory.
MODELS: Final = "models"
# The default ``TMPDIR`` of a container.
TMP: Final = ".tarn/tmp"
# The longest ``TMPDIR`` that leaves room for a socket's name.
LONGEST_TMP: Final = 60
# Seconds between two checks of a log's size.
LOOK_EVERY_S: Final = 10
# Prefix of the file next to an instance's log whose name ends with its id.
MARK: Final = "instance-"
# The script's name in ``Layout.public``.
RUN_NAME: Final = "run"


@attrs.frozen
class LogFiles:
    """How a container's logs are kept while its program runs."""

    most_bytes: int
    """A larger log is rotated, in place of the one rotated before."""
    mark: str = ""
    """Name of a file next to them, by which they are found later; or empty."""


def encode(
    argv: Sequence[Value],
    environ: Mapping[str, Value | None],
    directories: Iterable[Value] = (),
    shown_at: Value = "",
    logs: LogFiles | None = None,
) -> bytes:
    """Return the launch file of one container.

    Args:
        argv: The program, found on the ``PATH`` in *environ*, and its arguments. Text is written as
            UTF-8, with surrogate escapes as the bytes that they represent.
        environ: Variables besides those of YARN; None unsets one of YARN's.
        directories: To make before the program starts, relative to the container's directory.
        shown_at: Directory for links to the content of ``models``; or empty.
        logs: How its logs are kept; None means without rotation.

    Raises:
        LaunchError: A value cannot be passed to a program, or not by a shell (final). The text does
            not contain the value, which may be a secret.
    """
    if not argv or _bytes(argv[0])[:1] in (b"", b"-"):
        raise _impossible("the first argument is not a program")
    kept = []
    if logs is not None:  # these lines must come first, see `RUN`
        kept.append(b"%" + escaped(b"%d" % logs.most_bytes))
        kept += [b":" + escaped(_checked(logs.mark, "a file's name"))] if logs.mark else []
    lines = [
        *kept,
        *_environment(environ),
        *(b"+" + escaped(_checked(path, "a directory")) for path in directories),
        *(b"@" + escaped(_checked(path, "a directory")) for path in (shown_at,) if path),
        *(escaped(_checked(value, f"argument {at}")) for at, value in enumerate(argv)),
        b"=",
    ]
    return b"".join(line + b"\n" for line in lines)


def problem(name: str) -> str:
    """Return why containers cannot get the variable *name*; '' if they can."""
    if not _NAME.fullmatch(name):
        return "is not a valid variable name: use letters, digits and _, not a digit first"
    if _SHELLS_OWN.fullmatch(name):
        return "is a variable that the shell in front of every container sets itself"
    return ""


def _environment(environ: Mapping[str, Value | None]) -> Iterator[bytes]:
    for name, value in environ.items():
        if found := problem(name):
            raise _impossible(f"{name!r} {found}")
        if value is None:
            yield b"-" + name.encode()
        else:
            yield name.encode() + b"=" + escaped(_checked(value, name, len(name) + 1))


def _checked(value: Value, what: str, name_bytes: int = 0) -> bytes:
    raw = _bytes(value, what)
    if b"\0" in raw:
        raise _impossible(f"{what} holds a NUL byte")
    if len(raw) + name_bytes > _LONGEST:
        raise _impossible(f"{what} has {len(raw):,} bytes; Linux passes at most 131,071")
    return raw


def _bytes(value: Value, what: str = "the program") -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _impossible(f"{what} holds a lone surrogate, which is not text") from None


def escaped(raw: bytes) -> bytes:
    """Return *raw* for ``printf %b``, with only letters, digits and backslashes."""
    return b"".join(b"%c" % byte if byte in _PLAIN else b"\\0%03o" % byte for byte in raw)


def _impossible(found: str) -> LaunchError:
    return LaunchError(
        "yarn",
        f"{found}; it cannot be passed to a container",
        next_step="Correct triton.env or triton.args.",
    )


def _command(out: str, err: str) -> str:
    # `exec`, so that YARN's signals reach the program, not a shell around it. YARN's diagnostics
    # contain the end of a file named *stderr*. `>>`, so that writing continues at the new end of a
    # log that was truncated.
    redirected = f"</dev/null 1>><LOG_DIR>/{out} 2>><LOG_DIR>/{err}"
    return f"exec sh {SCRIPT} {redirected}"


# The command of every instance's container. Its Python models print to the same log.
COMMAND: Final = _command("triton.stderr", "triton.stderr")
# The command of a master's container.
MASTER_COMMAND: Final = _command("master.stdout", "master.stderr")

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
# The script: no secret in it, the same for all, so nodes keep it for everybody.
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
