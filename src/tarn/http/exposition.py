"""``/metrics`` as it is asked for: made when somebody asks, at most once of each snapshot."""

import asyncio

from tarn.control.metrics import render_metrics
from tarn.control.snapshot import Snapshot
from tarn.http.visibility import VisibilityFilter

__all__ = ["Exposition"]


class Exposition:
    """Makes the text on a thread of its own loop, so that no other answer waits for it.

    Lives on one event loop. Everybody who asks for a text that is being made waits for the same
    one.
    """

    def __init__(self) -> None:
        self._made: dict[bool, tuple[Snapshot, asyncio.Task[bytes]]] = {}
        """By format, the newest."""

    async def text(
        self, snapshot: Snapshot, hidden: VisibilityFilter, *, openmetrics: bool
    ) -> bytes:
        """Return the text of *snapshot* without what is *hidden*."""
        whole = await asyncio.shield(self._whole(snapshot, openmetrics=openmetrics))
        return await asyncio.to_thread(hidden.metrics, whole) if hidden else whole

    def _whole(self, snapshot: Snapshot, *, openmetrics: bool) -> "asyncio.Task[bytes]":
        made = self._made.get(openmetrics)
        if made is not None and made[0] is snapshot:
            return made[1]
        work = asyncio.to_thread(render_metrics, snapshot, openmetrics=openmetrics)
        task = asyncio.get_running_loop().create_task(work)
        self._made[openmetrics] = (snapshot, task)
        return task
