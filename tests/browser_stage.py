"""Tabs of a real Chromium that are looked at until they show something."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium_stage import chromium as running
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

__all__ = ["PICTURES", "Looking", "chromium"]

PICTURES = os.environ.get("TARN_TEST_SCREENSHOTS", "")  # noqa: TID251 (a person's wish)
"""The folder that gets the pictures for the documentation; empty: none are made."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a file."""
    with running() as browser:
        yield browser


class Looking:
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
