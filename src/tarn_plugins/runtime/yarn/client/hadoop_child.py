"""The client's end of the child process that holds the JVM.

A question is a line of JSON on the child's standard input, its answer a line on its standard
output; what Hadoop logs goes to standard error, of which the end is quoted when something hangs.
Secrets travel through the pipe only, never in arguments or the environment.
"""

import contextlib
import json
import math
import os
import select
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from tarn.errors import ProviderError, TimedOutError
from tarn_plugins.runtime.yarn.client.failures import unpack

__all__ = ["HadoopChild", "HadoopClient"]

END_TIMEOUT_S = 2.0
"""How long a child may take to end once its standard input is closed."""
_LAST_LINES, _LAST_BYTES, _CHUNK = 6, 8192, 65536


class HadoopClient(Protocol):
    """Asks YARN and HDFS, through whatever holds a JVM."""

    def ask(self, question: str, within_s: float, **parts: Any) -> Any:
        """Return the answer, as JSON values.

        Raises:
            TarnError: What the child raised: the same class with the same parts.
            TimedOutError: No answer within *within_s*; the child was killed.
        """
        ...


class HadoopChild:
    """One child, started when first asked, and again when it left. Any thread; one at a time.

    A process that was forked from the one that asked has a child of its own: two that read from one
    pipe would take each other's answers.

    Args:
        command: The child's argument list.
        environ: Its whole environment.
        begin: The parts of the first question of each child, ``begin``: settings.
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
                    # It had been idle for a minute: this question was not read.
            child = self._child = _Child(self._command, self._environ)
            begin = {"question": "begin", "parts": self._begin}
            try:
                self._answer(child, begin, deadline_s, within_s)
            except BaseException as error:
                self._drop()  # it cannot be used for another question
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
            raise _hangs(str(message["question"]), within_s, words) from None
        except KeyboardInterrupt:
            child.kill()  # else its answer would be taken for that of the next question
            self._drop()
            raise
        if "error" in answer:
            raise unpack(answer["error"])
        return answer["answer"]

    def _be_own(self) -> None:
        """After a fork, leave lock and child to the parent: it may use both at this moment."""
        if self._pid != os.getpid():
            inherited, self._child = self._child, None
            self._lock, self._pid = threading.Lock(), os.getpid()
            if inherited is not None:
                inherited.close()

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


class _Left(Exception):  # noqa: N818 (a state of affairs)
    """The child ended without an answer; *idle*: before it read the question."""

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
            start_new_session=True,  # Ctrl-C is the client's: it decides what becomes of a question
        )
        self._heard = b""
        # A client that ends without a message closes the pipe, and thereby ends the child.
        self._end = weakref.finalize(self, _end, self._process, self._log, os.getpid())

    def exchange(self, message: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
        """Send one line and return the next; ``TimeoutError`` at *deadline_s* (monotonic)."""
        assert self._process.stdin is not None
        try:
            self._send(json.dumps(message).encode() + b"\n", deadline_s)
        except BrokenPipeError:
            raise self._left() from None
        while b"\n" not in self._heard:
            self._hear(deadline_s)
        line, _, self._heard = self._heard.partition(b"\n")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def last_words(self) -> str:
        """Return the end of what Hadoop logged, as an appendix of a message."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._log.fileno()).st_size
            end = os.pread(self._log.fileno(), _LAST_BYTES, max(0, size - _LAST_BYTES))
            lines = [x for x in end.decode(errors="replace").splitlines() if x.strip()]
            if lines:
                return "\n  ".join(["; Hadoop's last output:", *lines[-_LAST_LINES:]])
        return ""

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """Close its input, and wait a little for its end."""
        self._end()

    def _send(self, data: bytes, deadline_s: float) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        os.set_blocking(descriptor, False)
        view = memoryview(data)
        while view:
            _await(descriptor, select.POLLOUT, deadline_s)
            view = view[os.write(descriptor, view) :]

    def _hear(self, deadline_s: float) -> None:
        assert self._process.stdout is not None
        _await(self._process.stdout.fileno(), select.POLLIN, deadline_s)
        data = os.read(self._process.stdout.fileno(), _CHUNK)
        if not data:
            raise self._left()
        self._heard += data

    def _left(self) -> _Left:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S)
        return _Left(self._process.poll(), self.last_words())


def _await(descriptor: int, event: int, deadline_s: float) -> None:
    """Wait until *descriptor* is ready, or its other end is closed; of any number, unlike select.

    Raises:
        TimeoutError: At *deadline_s* (monotonic).
    """
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(math.ceil(_left(deadline_s) * 1000)):
        raise TimeoutError


def _left(deadline_s: float) -> float:
    return max(0.0, deadline_s - time.monotonic())


def _end(process: "subprocess.Popen[bytes]", log: IO[bytes], owner: int) -> None:
    """Let go of a child; only its *owner*, the process that started it, sees to its end."""
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if owner != os.getpid():
        return
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        # One that hangs in the kernel (a mount whose server is gone) does not die of that.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)


def _lost(left: _Left) -> ProviderError:
    what = f"the process that talks to YARN ended with code {left.code}"
    return ProviderError("yarn", f"{what} without an answer{left.words}")


def _hangs(question: str, within_s: float, words: str) -> TimedOutError:
    return TimedOutError(
        f"YARN gave no answer to '{question}' within {within_s:g} s{words}",
        where="yarn",
        next_step="Are the ResourceManager and the name node up, and does HADOOP_CONF_DIR name the "
        "right cluster?",
    )
