"""Send commands to HAProxy's Runtime API, and translate its errors."""

import os
import stat
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from haproxyadmin.exceptions import HAProxyBaseError, SocketTimeout
from haproxyadmin.haproxy import HAProxy

from tarn.descriptors import shortage
from tarn.errors import DiscoveryError

__all__ = ["AWAY", "RuntimeApi"]

# haproxyadmin reads HAProxy's version, backends and counters. This module adds what it cannot do:
# - Many commands in one connection. It opens one for each command, and its objects one for each
#   attribute; 100 new servers are 600 commands. `ask` sends them as one text through its `command`:
#   after "prompt" HAProxy reads line after line, and writes "> " before each answer. (Answers to
#   commands joined by ";" cannot be told apart: some end with an empty line, others do not.)
# - "add server", "del server", health checks, variables.
# - Errors. It takes unknown answers for a success, sleeps before it tries again, ignores what one
#   `send` left over, and leaves its socket open after an error.
AWAY = "TARN-3306"
"""The error's code when HAProxy does not answer; a HAProxy that refuses has others."""
_NOT_ADMIN = "TARN-3307"
# Commands in one connection: less than the smallest buffer of a Unix socket takes at once, so that
# no part remains unsent while HAProxy waits for us to read.
_BATCH_BYTES = 48 * 1024
_AWAY_S = 0.1  # until a HAProxy that was away is asked again
_REFUSED_S = 1.0  # until a refused command is repeated
_OLDEST = (2, 6)  # the first version whose "add server" takes a check
# haproxyadmin's own errors, those of the socket, and those of missing parts of an answer
_ERRORS = (HAProxyBaseError, OSError, ValueError, KeyError)


class RuntimeApi:
    """One HAProxy process. Not for several threads at once.

    Args:
        socket: The socket of the Runtime API.
        deadline_s: Seconds of silence after which a connection is given up.
        provider: The provider's name, for errors.
    """

    def __init__(self, socket: Path, deadline_s: float, provider: str) -> None:
        self._socket = socket
        self._deadline_s = deadline_s
        self._provider = provider
        self._haproxy: HAProxy | None = None
        self.round_trips = 0
        """Connections made for `ask`."""

    def version(self) -> tuple[int, ...]:
        """Return HAProxy's version: (2, 6, 12)."""
        try:
            text = str(self._connected().info()[0]["Version"])
        except _ERRORS as error:
            raise self._unreachable(error) from error
        numbers = text.split("-", maxsplit=1)[0].split(".")
        return tuple(int(number) for number in numbers if number.isdigit())

    def backends(self) -> tuple[str, ...]:
        """Return the names of all backends."""
        try:
            return tuple(sorted(backend.name for backend in self._connected().backends()))
        except _ERRORS as error:
            raise self._unreachable(error) from error

    def check(self, *, adds_servers: bool) -> None:
        """Check that HAProxy answers, grants the level admin, and is new enough.

        Raises:
            DiscoveryError: It does not; or there is no such socket.
        """
        level = self.ask(["show cli level"])[0].strip()
        if level != "admin":
            raise self.refused("show cli level", level or "Permission denied")
        version = self.version()
        if adds_servers and version < _OLDEST:
            shown = ".".join(map(str, version))
            raise self.error(
                f"HAProxy {shown} cannot add servers that have a health check",
                right="Version 2.6 or newer can.",
                next_step="Use a newer HAProxy, or placeholder servers: slots.",
            )

    def ask(self, commands: Sequence[str]) -> list[str]:
        """Send *commands* in order; return an answer for each, without trailing newlines.

        Raises:
            DiscoveryError: HAProxy is away, silent, or forbids a command; earlier ones were done.
        """
        answers: list[str] = []
        for batch in _batches(commands):
            answers += self._exchange(batch)
        for command, answer in zip(commands, answers, strict=True):
            if answer.startswith("Permission denied"):
                raise self.refused(command, answer)
        return answers

    def _exchange(self, commands: list[str]) -> list[str]:
        text = "\n".join(["prompt", *commands, "quit"])
        self.round_trips += 1
        try:
            lines = self._connected().command(text)[0][1]
        except _ERRORS as error:
            self._haproxy = None
            raise self._unreachable(error) from error
        answers = list(_answers(lines))
        # the first is the answer to "prompt", the last the one to "quit"
        if len(answers) != len(commands) + 2:
            found = f"{len(commands)} commands had {max(0, len(answers) - 2)} answers"
            raise self.error(
                f"{found}; HAProxy ended the conversation", code=AWAY, again_after_s=_AWAY_S
            )
        return answers[1:-1]

    def _connected(self) -> HAProxy:
        if self._haproxy is not None:
            return self._haproxy
        self._look()
        try:
            # without its own retries: the caller repeats, and knows when to stop
            self._haproxy = HAProxy(
                socket_file=str(self._socket),
                retry=None,
                retry_interval=0,
                timeout=self._deadline_s,
            )
        except _ERRORS as error:
            raise self._unreachable(error) from error
        return self._haproxy

    def _look(self) -> None:
        """Raise a precise error if the socket's file is missing, wrong or not permitted."""
        try:
            mode = self._socket.stat().st_mode
        except PermissionError as error:
            raise self._not_ours() from error
        except OSError as error:
            raise self.error(
                "there is no such socket",
                next_step="Start HAProxy, or correct the path: it is in haproxy.cfg, 'stats socket "
                "PATH level admin'.",
                code=AWAY,
                again_after_s=_AWAY_S,
            ) from error
        if not stat.S_ISSOCK(mode):
            raise self.error("this file is not a socket", next_step="Correct the path.", code=AWAY)
        if not os.access(self._socket, os.R_OK | os.W_OK):
            raise self._not_ours()

    def _not_ours(self) -> DiscoveryError:
        return self.error(
            "this user may not use the socket",
            next_step="Give it permission in haproxy.cfg: 'stats socket PATH mode 660 group GROUP "
            "level admin'.",
            code=_NOT_ADMIN,
        )

    def _unreachable(self, error: Exception) -> DiscoveryError:
        # haproxyadmin leaves its socket open, in a frame that the error keeps alive
        traceback.clear_frames(error.__traceback__)
        if isinstance(error, PermissionError):
            return self._not_ours()
        lack = shortage(error)
        if lack:
            return self.error(f"no command was sent to HAProxy: {lack}", again_after_s=_REFUSED_S)
        silent = isinstance(error, (SocketTimeout, TimeoutError))
        return self.error(
            f"HAProxy has been silent for {self._deadline_s:g} s"
            if silent
            else "HAProxy does not answer",
            next_step="Start HAProxy; it gets its servers as soon as it answers.",
            code=AWAY,
            again_after_s=_AWAY_S,
        )

    def refused(self, command: str, answer: str) -> DiscoveryError:
        """Return the error for a socket that may not change anything."""
        return self.error(
            f"HAProxy answers '{answer.strip()}' to '{command}'",
            right="The socket must have the level admin.",
            next_step="Write 'stats socket PATH level admin' in haproxy.cfg, and reload HAProxy.",
            code=_NOT_ADMIN,
        )

    def error(
        self,
        found: str,
        *,
        right: str = "",
        next_step: str = "",
        code: str = "TARN-3309",
        again_after_s: float = _REFUSED_S,
    ) -> DiscoveryError:
        """Return an error that names the socket."""
        return DiscoveryError(
            self._provider,
            found,
            retry_after_s=again_after_s,
            code=code,
            where=f"HAProxy at {self._socket}",
            right=right,
            next_step=next_step,
        )


def _batches(commands: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for command in commands:
        if batch and size + len(command) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(command)
        size += len(command) + 1
    if batch:
        yield batch


def _answers(lines: Sequence[str]) -> Iterator[str]:
    """Split HAProxy's output at its prompts."""
    one: list[str] = []
    for line in lines:
        if line.startswith("> "):
            yield "\n".join(one).rstrip("\n")
            one = [line[2:]]
        else:
            one.append(line)
    yield "\n".join(one).rstrip("\n")
