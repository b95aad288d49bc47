"""``/api/v1/logs``: the end of an instance's log, or of the master's own."""

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.errors import ConfigError, NotFoundError
from tarn.http.answers import json_answer
from tarn.http.rights import Rights, principal_of
from tarn.http.sources import Sources

__all__ = ["LogRoutes"]

USUAL_LINES = 200
MOST_LINES = 2000
LONGEST_NUMBER = 9
LONGEST_ID = 128
"""Characters of an instance's id; one that a fleet has is half as long."""


@attrs.frozen(eq=False)
class LogRoutes:
    """The route. Lives on one event loop."""

    sources: Sources
    rights: Rights

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route("/api/v1/logs", self.logs)]

    async def logs(self, request: Request) -> Response:
        """Answer the end of one log: ``instance`` (none: the master's), ``lines``."""
        instance_id = request.query_params.get("instance", "")
        if len(instance_id) > LONGEST_ID:
            raise ConfigError(
                f"instance has {len(instance_id)} characters",
                code="TARN-2002",
                where="/api/v1/logs",
                right="Expected the id of an instance, as `tarn status` shows it",
            )
        lines = _lines(request.query_params.get("lines", ""))
        reader = self.sources.logs
        if reader is None:
            raise NotFoundError("no logs are kept here", where="/api/v1/logs")
        hidden = await self.rights.hidden(principal_of(request), self.sources.board.current)
        found = await reader.tail(instance_id, lines, hidden)
        return json_answer(
            {"instance": instance_id, "lines": list(found.lines), "truncated": found.truncated}
        )


def _lines(text: str) -> int:
    """Return how many lines are asked for."""
    if not text:
        return USUAL_LINES
    number = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
    if number and 1 <= int(text) <= MOST_LINES:
        return int(text)
    raise ConfigError(
        f"lines = '{text[:20]}'",
        code="TARN-3810",
        where="/api/v1/logs",
        right=f"Expected a number from 1 to {MOST_LINES}",
    )
