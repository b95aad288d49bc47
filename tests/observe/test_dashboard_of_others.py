"""The dashboard and others: odd names, the prefix of a proxy, people who may only look."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fake_master import (
    TOKEN,
    FakeMaster,
    PolicyAuthorizer,
    StillClock,
    event,
    instance,
    snapshot,
)
from playwright.sync_api import Browser, Route
from servers.browser import DashboardTab, chromium

from tarn.domain import ClusterState, Decision, Event, InstanceState, Issue
from tarn.http.blocking_pool import DirectAuthorizer

__all__ = ["chromium"]

EVIL = """<img src=x onerror="window.stolen=1"><script>window.stolen=1</script>"""
PREFIX = "/proxy/application_1700000000000_0001"


@pytest.fixture
def hostile() -> Iterator[FakeMaster]:
    """A master whose every text is markup."""
    rows = (
        instance(1, models=((EVIL, "READY", EVIL),), node=EVIL),
        instance(2, InstanceState.STARTING, reason=EVIL),
        instance(3, suspect=EVIL),
    )
    decided = Decision(at=1.0, wanted=2, desired=2, by="scale", reason=EVIL, held_back=EVIL)
    told = {
        "reason": EVIL,
        "state": ClusterState.DEGRADED,
        "events": (event(EVIL),),
        "decisions": (decided,),
        "issues": (Issue(EVIL, EVIL, code="TARN-1104"),),
    }
    with FakeMaster(snapshot(*rows, **told), api_token=None) as master:
        yield master


def test_what_is_shown_is_text(chromium: Browser, hostile: FakeMaster) -> None:
    """No name, reason or message of anybody becomes an element."""
    with DashboardTab(chromium) as tab:
        tab.page.goto(f"{hostile.url}/dashboard")
        tab.page.locator("#events-list li").wait_for()
        shown = tab.page.locator("body").inner_text()
        assert shown.count("<img src=x") >= 6
        assert tab.page.locator("img, iframe, object, script").count() == 1  # its own script
        assert tab.page.evaluate("() => window.stolen") is None
        assert tab.said == []


def test_a_life_is_told_by_events_and_guessed_where_none_is_left(chromium: Browser) -> None:
    """Asked for 120 s ago, ready for 100 s; the first one's events say what was between."""
    at = snapshot().at
    told = tuple(
        Event(code, "llama-0001", code, first=moment, last=moment)
        for code, moment in (("TARN-1101", at - 110), ("TARN-1102", at - 100.01))
    )
    with (
        FakeMaster(
            snapshot(instance(1), instance(2), instance(3, InstanceState.DRAINING), events=told),
            api_token=None,
            clock=StillClock(),
        ) as master,
        DashboardTab(chromium) as tab,
    ):
        tab.page.goto(f"{master.url}/dashboard")
        lanes = tab.page.locator("#instances-rows .lane")
        lanes.first.wait_for()
        assert [one.get_attribute("aria-label") for one in lanes.all()] == [
            "requested for 10 s, then starting for 10 s, then ready for 1 min 40 s",
            "starting for 20 s, then ready for 1 min 40 s",
            "ready for 20 s, then draining for 1 min 40 s",
        ]
        assert tab.page.locator("#lane-title").inner_text() == "Last 2 min"


@pytest.mark.parametrize("page", ["/dashboard", "/dashboard/"])
def test_under_a_prefix_it_asks_again_and_again_and_nothing_outside(
    chromium: Browser, page: str
) -> None:
    """Every request stays below the proxy's prefix; no stream is begun, for it would never end."""
    asked: list[str] = []

    def proxied(route: Route) -> None:
        parts = urlsplit(route.request.url)
        asked.append(parts.path)
        below = parts.path.removeprefix(PREFIX)
        answer = route.fetch(url=f"{master.url}{below}?{parts.query}")
        route.fulfill(response=answer)

    with FakeMaster(api_token=None) as master, DashboardTab(chromium) as tab:
        tab.page.route("http://rm.test/**", proxied)
        tab.page.goto(f"http://rm.test{PREFIX}{page}")
        tab.page.locator("#instances-rows tr").first.wait_for()
        assert tab.page.locator("#pulse-text").inner_text() == "every second"
        master.publish(instances=(instance(1), instance(2), instance(9)))
        tab.page.locator("#instances-rows :text('llama-0009')").wait_for()
        assert all(path.startswith(f"{PREFIX}/") for path in asked)
        assert not any(path.endswith("/stream") for path in asked)
        assert tab.said == []


def test_who_may_only_look_is_offered_nothing_else(chromium: Browser) -> None:
    """No command and no log; what they may not see at all is said in words."""
    rights = {("anonymous", "view", "")}
    gate = DirectAuthorizer(PolicyAuthorizer(rights=rights))
    with FakeMaster(api_token=None, gate=gate) as master, DashboardTab(chromium) as tab:
        tab.page.goto(f"{master.url}/dashboard")
        tab.page.locator("#instances-rows tr").first.wait_for()
        assert tab.page.get_by_role("button").all_inner_texts() == ["Theme: auto"]
        assert tab.said == []
    with (
        FakeMaster(api_token=None, gate=DirectAuthorizer(PolicyAuthorizer())) as master,
        DashboardTab(chromium) as tab,
    ):
        tab.page.goto(f"{master.url}/dashboard")
        tab.page.locator("#lost:has-text('You may not look at this cluster')").wait_for()
        assert not tab.page.locator("#shown").is_visible()
        assert tab.said == []


def test_a_session_that_the_master_does_not_know_leads_to_the_door(chromium: Browser) -> None:
    """Another token, another master: the page asks to sign in again, and shows nothing old."""
    with FakeMaster() as master, DashboardTab(chromium) as tab:
        tab.sign_in(master.url, TOKEN.decode())
        tab.page.evaluate("() => sessionStorage.setItem('tarn-session', 's1.1.old')")
        tab.page.locator("#signing").wait_for()
        assert "session has ended" in tab.page.locator("#signing-why").inner_text()
        assert tab.page.evaluate("() => sessionStorage.length") == 0
        assert not re.search("llama-0001", tab.page.locator("body").inner_text())
