"""Start tritonserver on the node where this runs: ``python -m tarn.triton.start ARGUMENTS``.

A master on another machine cannot know where a node has its tritonserver. This finds it as the
runtime ``local`` does (``--tritonserver=PATH`` as the first argument, else ``PATH``, then the wheel
nvidia-pytriton of this interpreter), assembles the wheel's Python backend, sees to it that nobody
else reads its shared memory and that none is left, takes away the empty folders of those that were
killed, and becomes tritonserver: pid, signals and log are its own.

What is wrong is said in one line that begins with ``error:``, like Triton's own last line.
"""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tarn.errors import LaunchError, RefusedError
from tarn.triton import binary, regions, stubs
from tarn.triton.abandoned import remove_abandoned
from tarn.triton.folders import private_folder, refuse_shared

__all__ = ["main", "words"]

_TRITONSERVER = "--tritonserver="
_BACKENDS = "--backend-directory"
_REPOSITORY = "--model-repository"
_BOARD = Path(".tarn", "stubs")
"""In the container's own directory: what `tarn.triton.stubs` shows there, Triton lists."""


def main(arguments: Sequence[str]) -> int:
    """Become tritonserver with *arguments*; returns only when that cannot be, with a status."""
    environ = dict(os.environ)
    given, arguments = _given(arguments)
    try:
        program = binary.prepare(given, environ, _cache(environ))
    except LaunchError as error:
        _say(str(error))
        return 1
    its_environ = binary.environment(program, environ)
    line = [*words(program, arguments), *_watched(arguments, its_environ)]
    prefix = regions.prefix_in(arguments)
    try:
        remove_abandoned()
        if prefix is not None:
            regions.clear_after_end(prefix)
        if not regions.keep_private(its_environ):
            sys.stderr.write(f"warning: {regions.NO_FILTER}\n")
        os.execve(program.path, line, its_environ)  # noqa: S606 (no shell: that is the point)
    except OSError as error:
        _say(f"{program.path} cannot be started: {error.strerror}")
        return 1


def words(program: binary.TritonProgram, arguments: Sequence[str]) -> list[str]:
    """Return the whole command line; a directory of back ends in *arguments* wins over ours."""
    theirs = any(word.partition("=")[0] == _BACKENDS for word in arguments)
    ours = [] if theirs or not program.backend_directory else [program.backend_directory]
    return [program.path, *arguments, *(f"{_BACKENDS}={directory}" for directory in ours)]


def _watched(arguments: Sequence[str], environ: Mapping[str, str]) -> Sequence[str]:
    """Start what watches the processes of Python models; return what lets Triton list its findings.

    It is this process's child, which is Triton's child soon, and ends with it. Without it Triton
    serves as well.
    """
    if not any(word.partition("=")[0] == _REPOSITORY for word in arguments):
        return ()
    board = _BOARD.absolute()
    try:
        board.mkdir(mode=0o700, parents=True, exist_ok=True)
        subprocess.Popen(
            [sys.executable, "-I", "-S", stubs.__file__, str(board), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: environ[name] for name in ("LD_LIBRARY_PATH",) if name in environ},
            cwd="/",
        )
    except OSError as error:
        sys.stderr.write(f"warning: processes of Python models are not watched: {error}\n")
        return ()
    return (f"{_REPOSITORY}={board}",)


def _given(arguments: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the program that is asked for, and Triton's own arguments."""
    if arguments and arguments[0].startswith(_TRITONSERVER):
        return arguments[0].removeprefix(_TRITONSERVER), arguments[1:]
    return None, arguments


def _cache(environ: Mapping[str, str]) -> Path:
    """Return the first directory that can be written: the user's cache serves the next start too.

    ``HOME`` is the container's own directory by now, so the user's is asked for by the uid.
    """
    for folder in _places(environ):
        try:
            refuse_shared(folder, home=folder.parents[1])
            private_folder(folder)
        except (OSError, RefusedError):
            continue
        ours = os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.geteuid()
        if ours and not binary.unloadable(folder):
            return folder
    return Path.cwd() / ".tarn" / "cache"


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("XDG_CACHE_HOME"):
        yield Path(environ["XDG_CACHE_HOME"], "tarn").absolute()
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container's uid need not be in its image
        return
    if home.startswith("/") and home != "/":
        yield Path(home, ".cache", "tarn")


def _say(text: str) -> None:
    sys.stderr.write(f"error: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
