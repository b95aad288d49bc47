"""The route ``/dashboard``."""

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.http.dashboard.assembly import Page

__all__ = ["Dashboard"]


@attrs.frozen(eq=False)
class Dashboard:
    """Answers the page, which is joined once, at the start."""

    page: Page

    def routes(self) -> list[Route]:
        """Return the route; GET and HEAD."""
        return [Route("/dashboard", self.show)]

    async def show(self, _request: Request) -> Response:
        """Answer the page, with a policy of its own in place of the one of every other answer."""
        headers = {"Content-Security-Policy": self.page.policy}
        return Response(self.page.html, headers=headers, media_type="text/html")
