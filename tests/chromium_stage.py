"""A real Chromium, and what a page in it said and asked for."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = "/usr/bin/chromium"


@contextlib.contextmanager
def chromium(*arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[Browser]:
    """Run one, without a window; *environ* is its whole environment."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", *arguments],
            env=None if environ is None else dict(environ),
        )
        try:
            yield browser
        finally:
            browser.close()


@attrs.define
class Watched:
    """A page whose faults and requests are kept."""

    page: Page
    faults: list[str] = attrs.field(factory=list)
    """What the console complained of, and what was raised and not caught."""
    requests: list[Request] = attrs.field(factory=list)

    @classmethod
    def of(cls, browser: Browser, **options: Any) -> "Watched":
        """Open an empty one, in a context (cookies, storage) of its own."""
        one = cls(browser.new_context(**options).new_page())
        # playwright writes into what it is given: no method and no list can be
        one.page.on("console", lambda message: one._said(message))  # noqa: PLW0108
        one.page.on("pageerror", lambda error: one.faults.append(f"raised: {error}"))
        one.page.on("request", lambda request: one.requests.append(request))  # noqa: PLW0108
        return one

    def urls(self) -> list[str]:
        """Return where it asked, in order."""
        return [request.url for request in self.requests]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")
