"""Ask the Python models of one instance whether they are ready.

Triton's repository index says READY of a model that is loaded. Since 25.12 (2.64)
``GET /v2/models/<name>/ready`` also looks at the processes of a Python model, and since 26.03
(2.67) it calls the model's own ``is_ready()``. The answer is 200, or 400 without the reason. The
call may take five seconds, so it must not delay the look at the instance's health.

Source: Triton's Python backend, ``README.md`` ("is_ready") and ``TRITONBACKEND_ModelInstanceReady``
in ``python_be.cc``; ``InferenceServer::ModelIsReady`` in ``server.cc`` of its core.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from urllib.parse import quote

from tarn.control.http1 import Reply, request
from tarn.control.port_watcher import ProbeFailure, ask_once
from tarn.domain import Endpoint

__all__ = ["ReadinessAsker", "answers_for_models"]

# Triton's own limit for ``is_ready()`` is 5 s.
WITHIN_S = 6.0
# Looks at the instance's health between two rounds.
LOOKS_A_ROUND = 5
# Models that one round asks, so that thousands of them do not keep Triton busy.
MOST_A_ROUND = 20
_MOST_BYTES = 1 << 16
_FIRST_VERSION = (2, 64)
_OK, _NOT_READY = 200, 400


def answers_for_models(metadata: Reply) -> bool:
    """Say by the answer to ``GET /v2`` whether this Triton asks the models themselves."""
    try:
        said = json.loads(metadata.body)
        major, minor = str(said["version"]).split(".")[:2]
        return (int(major), int(minor)) >= _FIRST_VERSION
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


class ReadinessAsker:
    """Asks the models of one instance in rounds, each over a connection of its own.

    Args:
        endpoint: The instance.
        headers: The key of Triton's health API, if that is restricted.
        models: Returns the models to ask now.
        changed: Called when `not_ready` has changed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        headers: tuple[tuple[str, str], ...],
        models: Callable[[], Sequence[str]],
        changed: Callable[[], None],
    ) -> None:
        self._endpoint, self._headers = endpoint, headers
        self._models, self._changed = models, changed
        self._next = 0
        self.not_ready: frozenset[str] = frozenset()
        """Models that said so when they were asked last."""

    async def run(self, interval_s: float) -> None:
        """Ask until cancelled; *interval_s* is that of the looks at the health."""
        while True:
            models = self._models()
            self._set(self.not_ready & frozenset(models))
            for name in self._turn(models):
                await self._ask(name)
            await asyncio.sleep(LOOKS_A_ROUND * interval_s)

    def _turn(self, models: Sequence[str]) -> Sequence[str]:
        """Return the models of this round; the next one goes on behind them."""
        start = self._next if self._next < len(models) else 0
        self._next = start + MOST_A_ROUND
        return models[start : self._next]

    async def _ask(self, name: str) -> None:
        path = f"/v2/models/{quote(name, safe='')}/ready"
        question = request("GET", path, self._endpoint.http, headers=self._headers)
        answer = await ask_once(self._endpoint, question, WITHIN_S, _MOST_BYTES)
        if isinstance(answer, ProbeFailure):
            return  # nothing new is known; the health shows whether the instance answers
        if answer.status == _NOT_READY:
            self._set(self.not_ready | {name})
        elif answer.status == _OK:
            self._set(self.not_ready - {name})

    def _set(self, not_ready: frozenset[str]) -> None:
        if not_ready != self.not_ready:
            self.not_ready = not_ready
            self._changed()
