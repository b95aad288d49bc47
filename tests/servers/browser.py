"""A real Chromium: what a page in it shows, says and asks for."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)

CHROMIUM = "/usr/bin/chromium"


@contextlib.contextmanager
def running_chromium(
    *arguments: str, environ: Mapping[str, str] | None = None
) -> Iterator[Browser]:
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
class WatchedPage:
    """A page whose faults and requests are kept."""

    page: Page
    faults: list[str] = attrs.field(factory=list)
    """What the console complained of, and what was raised and not caught."""
    requests: list[Request] = attrs.field(factory=list)

    @classmethod
    def of(cls, browser: Browser, **options: Any) -> "WatchedPage":
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


__all__ = ["PICTURES", "DashboardTab", "chromium"]

PICTURES = os.environ.get("TARN_TEST_SCREENSHOTS", "")  # noqa: TID251 (a person's wish)
"""The folder that gets the pictures for the documentation; empty: none are made."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a file."""
    with running_chromium() as browser:
        yield browser


class DashboardTab:
    """One tab of one person, and all that its console said."""

    def __init__(self, browser: Browser, **context: Any) -> None:
        plain = {"viewport": {"width": 1360, "height": 900}, "reduced_motion": "reduce"}
        self.context: BrowserContext = browser.new_context(**{**plain, **context})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.said: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.context.close()

    def _hear(self, message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type}: {message.text} ({where})")

    def sign_in(self, url: str, token: str) -> Self:
        """Open the dashboard of the master at *url* and sign in by hand."""
        self.page.goto(f"{url}/dashboard")
        self.page.get_by_label("Token of the API").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.locator("#shown").wait_for()
        return self

    def until(self, expression: str, within_s: float = 30.0, given: object = None) -> None:
        """Wait until *expression* (JavaScript) is true; it is looked at each time it is drawn."""
        self.page.wait_for_function(expression, arg=given, timeout=1000 * within_s)

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def tab_to(self, reached: Callable[[str], bool], most: int = 60) -> None:
        """Press Tab until what has the focus is called as *reached* wants it."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if reached(self.page.evaluate(_NAME)):
                return
        pytest.fail("the keyboard does not get there")

    def faults(self, *, scope: str | None = None) -> list[str]:
        """Return what axe-core finds that is serious or critical."""
        found = Axe().run(self.page, context=scope).response["violations"]
        grave = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {json.dumps([n['html'] for n in one['nodes']])}" for one in grave]

    def picture(self, name: str) -> None:
        """Make a picture for the documentation."""
        self.page.screenshot(path=Path(PICTURES) / f"{name}.png")


_NAME = """() => {
  const one = document.activeElement;
  return one.getAttribute("aria-label") || one.innerText || one.id || one.tagName;
}"""
