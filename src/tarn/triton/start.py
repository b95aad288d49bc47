"""Starts tritonserver on this node: ``python -m tarn.triton.start ARGUMENTS``.

A master on another machine cannot know where a node has its tritonserver. This program finds it as
the runtime ``local`` does (``--tritonserver=PATH`` as the first argument, else ``PATH``, then the
wheel nvidia-pytriton of this interpreter). It assembles the wheel's Python backend, keeps shared
memory private, arranges its removal, removes empty folders of killed Tritons, and then executes
tritonserver in this process, so that pid, signals and log are tritonserver's.

An error is one line that begins with ``error:``, like Triton's own last line.
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
_CACHES, _CACHE = "--cache-directory", ("--cache-config", "--response-cache-byte-size")
_REPOSITORY = "--model-repository"
# In the directory of the container: a repository of Triton's, to which `tarn.triton.stubs` writes.
_BOARD = Path(".tarn", "stubs")


def main(arguments: Sequence[str]) -> int:
    """Execute tritonserver with *arguments*; return a status only if that fails."""
    environ = dict(os.environ)
    given = None
    if arguments and arguments[0].startswith(_TRITONSERVER):
        given, arguments = arguments[0].removeprefix(_TRITONSERVER), arguments[1:]
    try:
        program = binary.prepare(given, environ, _cache(environ))
    except LaunchError as error:
        sys.stderr.write(f"error: {error}\n")
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
        sys.stderr.write(f"error: {program.path} cannot be started: {error.strerror}\n")
        return 1


def words(program: binary.TritonProgram, arguments: Sequence[str]) -> list[str]:
    """Return the whole command line; a directory in *arguments* replaces ours."""
    given = {word.partition("=")[0] for word in arguments}
    ours = {_BACKENDS: program.backend_directory}
    if not given.isdisjoint(_CACHE):
        ours[_CACHES] = program.cache_directory
    added = (f"{name}={path}" for name, path in ours.items() if path and name not in given)
    return [program.path, *arguments, *added]


def _watched(arguments: Sequence[str], environ: Mapping[str, str]) -> Sequence[str]:
    """Start `tarn.triton.stubs`; return the argument that makes Triton list its findings.

    It is a child of this process, and so of Triton after the `exec`. If it cannot be started,
    Triton runs without it.
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


def _cache(environ: Mapping[str, str]) -> Path:
    """Return the first writable directory, preferably the user's cache, which stays."""
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
        # By uid, since HOME is the container's directory here.
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container's uid need not be in its image
        return
    if home.startswith("/") and home != "/":
        yield Path(home, ".cache", "tarn")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
