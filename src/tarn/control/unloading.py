"""Emptying a Triton before its stop: it proves by itself that its last request has ended."""

import asyncio
from collections.abc import Callable, Iterable

import attrs

from tarn.control.http1 import Reply, connect, request
from tarn.control.port_watcher import attempt
from tarn.domain import Endpoint, Known, Sample, Unknown
from tarn.triton.index import MOST_BYTES, parse_index
from tarn.triton.unload import path

__all__ = ["Unloading"]

TIMEOUT_S = 5.0
"""For one question; Triton answers at once, a starved machine later."""
LOOK_EVERY_S = 0.1
AGAIN_S = 1.0
"""After a question that brought no answer."""
_INDEX = "/v2/repository/index"
_OK = 200


@attrs.frozen
class Unloading:
    """Unloads every model of one Triton, one after the other; on the scraper's loop.

    Each question has a connection of its own: one that is kept would hold Triton's exit.
    """

    endpoint: Endpoint
    headers: tuple[tuple[str, str], ...]
    """What opens Triton's control API, where it is restricted."""
    first: Callable[[Iterable[str]], str]
    """Returns which of the given models to unload next."""
    said: Callable[[Sample[bool]], None]
    """Hears Known(False) while models are left, Known(True) once none is, Unknown when Triton
    refuses; the latter two are final."""

    async def run(self) -> None:
        """Ask until no model is left, or Triton refuses; what brings no answer is asked again."""
        self.said(Known(value=False))
        while True:
            reply = await self._ask(_INDEX)
            if reply is None:
                await asyncio.sleep(AGAIN_S)
                continue
            if (last := await self._step(reply)) is not None:
                self.said(last)
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _step(self, index: Reply) -> Sample[bool] | None:
        """Unload the next model when none is on its way; return the answer, if it is final."""
        if index.status != _OK:
            return _refusal(_INDEX, index)
        try:
            models = parse_index(index.body)
        except ValueError as error:
            return Unknown(f"cannot read the repository index: {error}")
        ready = [m.name for m in models if m.state == "READY"]
        if any(m.state in ("LOADING", "UNLOADING") for m in models):
            return None
        if not ready:
            return Known(value=True)
        where = path(self.first(ready))
        reply = await self._ask(where)
        return None if reply is None or reply.status == _OK else _refusal(where, reply)

    async def _ask(self, where: str) -> Reply | None:
        """Return the answer; None: there was none."""
        endpoint, replies = self.endpoint, []
        question = request("POST", where, endpoint.http, headers=self.headers)

        async def ask() -> None:
            connection = await connect(endpoint.host, endpoint.http_port, lambda: None)
            try:
                replies.append(await connection.ask(question, MOST_BYTES))
            finally:
                connection.close()

        await attempt(endpoint.http, TIMEOUT_S, ask())
        return replies[0] if replies else None


def _refusal(where: str, reply: Reply) -> Unknown:
    said = reply.body[:200].decode(errors="replace").strip()
    return Unknown(f"Triton refused POST {where}: {reply.status} {said}".strip())
