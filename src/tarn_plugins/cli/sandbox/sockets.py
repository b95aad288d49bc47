"""Where the daemons listen: free, or taken by whom."""

import contextlib
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from tarn.errors import RefusedError
from tarn_plugins.cli.sandbox.daemons import Daemon, sockets
from tarn_plugins.cli.sandbox.layout import written
from tarn_plugins.cli.sandbox.options import SandboxOptions

__all__ = ["check_free", "taken"]

_PROC = Path("/proc")
_CONNECT_S = 1.0
_HOME = b"-Dhadoop.home.dir="


def check_free(wanted: Iterable[Daemon], options: SandboxOptions) -> None:
    """Return when every socket of these daemons can be had.

    Raises:
        RefusedError: One is taken (TARN-3504); the message names the sandbox that holds it, if it
            is one that can be seen.
    """
    for daemon in wanted:
        for address, port in sockets(daemon, options):
            with socket.socket() as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    trial.bind((address, port))
                except OSError as error:
                    raise RefusedError(
                        f"{address}:{port} is taken ({error.strerror})",
                        code="TARN-3504",
                        where=f"daemon {daemon.name}",
                        next_step=_advice(options),
                    ) from error


def taken(address: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as trial:
        trial.settimeout(_CONNECT_S)
        return trial.connect_ex((address, port)) == 0


def _advice(options: SandboxOptions) -> str:
    for directory in _sandboxes():
        there = written(directory)
        if there is not None and there.network == options.network:
            return (
                f"End the other sandbox (`tarn sandbox down --directory {directory}`), or "
                "choose another --network."
            )
    return "End the program that listens there, or choose another --network."


def _sandboxes() -> Iterator[Path]:
    """Yield the directories of the sandboxes whose daemons can be seen; one may come twice."""
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                for argument in (entry / "cmdline").read_bytes().split(b"\0"):
                    if argument.startswith(_HOME):
                        yield Path(argument.removeprefix(_HOME).decode(errors="replace"))
