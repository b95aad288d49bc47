"""The client's end of the child process that holds the JVM.

A question is a line of JSON on the child's standard input, and its answer a line on standard
output. Hadoop logs to standard error, whose end is quoted when the child hangs. Secrets travel only
through the pipe, never in arguments or the environment. An error travels as its parts, and is
raised here again.
"""

import contextlib
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import attrs

from tarn import errors
from tarn.errors import (
    NotAuthorizedError,
    ProviderError,
    RefusedError,
    TarnError,
    TimedOutError,
)
from tarn.interfaces import ClientContext
from tarn.java import HadoopJvm
from tarn.triton.folders import private_folder
from tarn_plugins.runtime.yarn import YarnSettings

__all__ = ["HadoopClient", "pack", "start_child"]

# How long a child may take to exit after its standard input was closed.
END_TIMEOUT_S = 2.0
_MODULE = "tarn_plugins.runtime.yarn.child.serving"
_HEAP_MIB = 256
# A larger young generation than a master's, which lives for months. The small one is collected more
# than twenty times before the first answer, 0.25 s of its 1.4 s of CPU time (measured).
_ROOMY = ("-Xms64m", "-Xmn32m")
# The folder of class archives, in TARN's cache.
_ARCHIVES = "java"
_LAST_LINES, _LAST_BYTES, _CHUNK = 6, 8192, 65536

_PARTS = ("found", "code", "where", "right", "next_step")
# Errors of a child arrive as the nearest base class among these.
_CLASSES: Mapping[str, type[TarnError]] = {
    kind.__name__: kind
    for kind in (
        TarnError,
        errors.ConfigError,
        errors.RefusedError,
        ProviderError,
        errors.LaunchError,
        errors.StorageError,
        errors.NotFoundError,
        errors.UnreachableError,
        errors.TimedOutError,
    )
}


class HadoopClient(Protocol):
    """Asks YARN and HDFS, through a process with a JVM."""

    def ask(self, question: str, within_s: float, **parts: Any) -> Any:
        """Return the answer, as JSON values.

        Raises:
            TarnError: The error that the child raised, with the same parts.
            TimedOutError: No answer within *within_s*; the child was killed.
        """
        ...

    def close(self) -> None:
        """End the process. Idempotent."""
        ...


class HadoopChild:
    """A child, started at the first question, and again after it left. Any thread, one at a time.

    A forked process gets another child: two readers of a pipe would take each other's answers.

    Args:
        command: The child's argument list.
        environ: Its whole environment.
        begin: The settings, parts of each child's first question ``begin``.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        begin: Mapping[str, Any],
    ) -> None:
        self._command, self._environ, self._begin = list(command), dict(environ), dict(begin)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._pid = os.getpid()

    def ask(self, question: str, within_s: float, **parts: Any) -> Any:
        """Return the answer; see `HadoopClient`."""
        self._be_own()
        with self._lock:
            deadline_s = time.monotonic() + within_s
            message = {"question": question, "parts": parts}
            if self._child is not None:
                try:
                    return self._answer(self._child, message, deadline_s, within_s)
                except _Left as left:
                    self._drop()
                    if not left.idle:
                        raise _lost(left) from None
                    # It left after a minute without a question, and did not read this one.
            child = self._child = _Child(self._command, self._environ)
            begin = {"question": "begin", "parts": self._begin}
            try:
                self._answer(child, begin, deadline_s, within_s)
            except BaseException as error:
                self._drop()  # it is unusable for other questions
                if isinstance(error, _Left):
                    raise _lost(error) from None
                raise
            try:
                return self._answer(child, message, deadline_s, within_s)
            except _Left as left:
                self._drop()
                raise _lost(left) from None

    def close(self) -> None:
        """End the child. Idempotent."""
        self._be_own()
        with self._lock:
            self._drop()

    def _answer(
        self, child: "_Child", message: Mapping[str, Any], deadline_s: float, within_s: float
    ) -> Any:
        try:
            answer = child.exchange(message, deadline_s)
        except TimeoutError:
            words = child.last_words()
            child.kill()
            self._drop()
            raise TimedOutError(
                f"YARN gave no answer to '{message['question']}' within {within_s:g} s{words}",
                where="yarn",
                next_step="Are the ResourceManager and the name node up, and does HADOOP_CONF_DIR "
                "name the right cluster?",
            ) from None
        except KeyboardInterrupt:
            child.kill()  # or its answer would be taken for that of the next question
            self._drop()
            raise
        if "error" in answer:
            raise unpack(answer["error"])
        return answer["answer"]

    def _be_own(self) -> None:
        """After a fork, leave lock and child to the parent, which may be using them."""
        if self._pid != os.getpid():
            inherited, self._child = self._child, None
            self._lock, self._pid = threading.Lock(), os.getpid()
            if inherited is not None:
                inherited.close()

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def start_child(settings: YarnSettings, context: ClientContext) -> HadoopChild:
    """Return a child with this process's interpreter and tarn, not yet started."""
    root = str(Path(errors.__file__).parents[1])
    given = context.environ.get("PYTHONPATH")
    path = f"{root}:{given}" if given else root
    named = settings.kerberos
    jvm = HadoopJvm(
        _HEAP_MIB,
        settings.hadoop_home,
        settings.java_home,
        _ROOMY,
        archives=_archives(context.paths.cache),
        record=True,
    )
    return HadoopChild(
        # -P: no module in the user's present directory may take the place of one that is imported.
        [
            sys.executable,
            "-P",
            "-X",
            "utf8",
            "-m",
            "tarn.java",
            json.dumps(attrs.asdict(jvm)),
            _MODULE,
        ],
        {**context.environ, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "2"},
        {
            "environ": dict(context.environ),
            "java": attrs.asdict(jvm),
            "staging": settings.staging,
            "kerberos": named and (named.principal, str(named.keytab)),
        },
    )


def _archives(cache: Path) -> str:
    """Return the folder of class archives; '' if it cannot be used."""
    try:
        return str(private_folder(cache / _ARCHIVES))
    except (OSError, RefusedError):
        return ""  # a JVM starts without


class _Left(Exception):  # noqa: N818 (a state of affairs)
    """The child ended without an answer; if *idle*, before it read the question."""

    def __init__(self, code: int | None, words: str) -> None:
        super().__init__(code)
        self.idle, self.code, self.words = code == 0, code, words


class _Child:
    """One process and its pipes."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environ,
            bufsize=0,
            start_new_session=True,  # so that Ctrl-C reaches only the client
        )
        self._heard = b""
        # A client that ends in any way closes the pipe, and so ends the child.
        self._end = weakref.finalize(self, _end, self._process, self._log, os.getpid())

    def exchange(self, message: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
        """Send one line and return the next; ``TimeoutError`` at *deadline_s* (monotonic)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        writing, reading = self._process.stdin.fileno(), self._process.stdout.fileno()
        # Otherwise a child that does not read would block this process beyond the deadline.
        os.set_blocking(writing, False)
        view = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while view:
                _await(writing, select.POLLOUT, deadline_s)
                view = view[os.write(writing, view) :]
        except BrokenPipeError:
            raise self._left() from None
        while b"\n" not in self._heard:
            _await(reading, select.POLLIN, deadline_s)
            if not (data := os.read(reading, _CHUNK)):
                raise self._left()
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def last_words(self) -> str:
        """Return the end of Hadoop's log, as an appendix for an error."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._log.fileno()).st_size
            end = os.pread(self._log.fileno(), _LAST_BYTES, max(0, size - _LAST_BYTES))
            lines = [x for x in end.decode(errors="replace").splitlines() if x.strip()]
            if lines:
                return "\n  ".join(["; Hadoop's last output:", *lines[-_LAST_LINES:]])
        return ""

    def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """Close the input, and wait a little for the end of the process."""
        self._end()

    def _left(self) -> _Left:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S)
        return _Left(self._process.poll(), self.last_words())


def _await(descriptor: int, event: int, deadline_s: float) -> None:
    """Wait until *descriptor* is ready, or its other end is closed.

    Raises:
        TimeoutError: At *deadline_s* (monotonic).
    """
    poll = select.poll()  # not `select`, which accepts no descriptor above 1023
    poll.register(descriptor, event)
    if not poll.poll(math.ceil(max(0.0, deadline_s - time.monotonic()) * 1000)):
        raise TimeoutError


def _end(process: "subprocess.Popen[bytes]", log: IO[bytes], owner: int) -> None:
    """Close the pipes of a child; in its *owner* process, also wait for its end."""
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    # Only a parent can wait for a process; here it is a forked copy of the parent.
    if owner != os.getpid():
        return
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        # A process that hangs in the kernel, as on a dead mount, does not end even by SIGKILL.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)


def _lost(left: _Left) -> ProviderError:
    what = f"the process that talks to YARN ended with code {left.code}"
    return ProviderError("yarn", f"{what} without an answer{left.words}")


def pack(error: TarnError) -> dict[str, Any]:
    """Return the parts of *error* as JSON values."""
    kind = next(k.__name__ for k in type(error).__mro__ if k.__name__ in _CLASSES)
    packed: dict[str, Any] = {"class": kind, **{part: getattr(error, part) for part in _PARTS}}
    if isinstance(error, ProviderError):
        packed |= {"provider": error.provider, "retry_after_s": error.retry_after_s}
    if isinstance(error, NotAuthorizedError):
        # It arrives as a base class, which has only this text.
        packed["found"] = str(error)
    return packed


def unpack(packed: Mapping[str, Any]) -> TarnError:
    """Return the error from the result of `pack`."""
    kind = _CLASSES.get(str(packed.get("class")), TarnError)
    parts = {part: str(packed.get(part, "")) for part in _PARTS}
    found = parts.pop("found")
    if issubclass(kind, ProviderError):
        after_s = packed.get("retry_after_s")
        return kind(str(packed.get("provider", "yarn")), found, retry_after_s=after_s, **parts)
    return kind(found, **parts)
