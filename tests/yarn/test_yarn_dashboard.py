"""The dashboard in a real browser, through the ResourceManager's proxy."""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect
from servers.browser import WatchedPage, running_chromium
from yarn_fleet import Fleet

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

ONE = {"min": 1, "max": 2, "initial": 1}
SHOWN_MS = 20_000
STARTED_MS = 90_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as one:
        yield one


def proxied(fleet: Fleet) -> str:
    """Return where the proxy shows the page."""
    return str(fleet.house.ref(fleet.name)["proxy_url"]).rstrip("/") + "/dashboard"


@pytest.mark.timeout(300)
def test_a_fleet_is_watched_and_scaled_through_the_proxy(yarn_house, hadoop, browser) -> None:
    """It loads, asks every second, and writes: by GET and PUT alone, below the proxy's prefix."""
    fleet = Fleet(yarn_house, hadoop, "watched")
    fleet.up(yarn_house.spec("watched", replicas=ONE, api={"token": "none"}))
    first = fleet.settled(1)["instances"][0]["id"]
    seen = WatchedPage.of(browser)
    page, url = seen.page, proxied(fleet)
    page.goto(url)
    rows = page.locator("#instances-rows tr")
    expect(rows).to_have_count(1, timeout=SHOWN_MS)
    expect(rows.first).to_contain_text(first)
    expect(page.locator("#user")).to_have_text("anonymous")

    asked, began_s = len(seen.urls()), time.monotonic()
    with page.expect_request(lambda _: time.monotonic() - began_s > 4):
        pass
    looks = [one for one in seen.urls()[asked:] if one.endswith("/api/v1/status")]
    assert 2 <= len(looks) <= 8

    page.get_by_role("button", name="Scale").click()
    page.get_by_role("spinbutton", name="Instances").fill("2")
    page.get_by_role("button", name="Scale to 2").click()
    expect(page.locator("#instances-rows tr", has_text="ready")).to_have_count(
        2, timeout=STARTED_MS
    )
    assert len(fleet.settled(2)["instances"]) == 2
    (write,) = [one for one in seen.requests if one.method not in ("GET", "HEAD")]
    assert (write.method, urlsplit(write.url).path.split("/")[-1]) == ("PUT", "scale")
    assert all(one.startswith((url.removesuffix("dashboard"), "data:")) for one in seen.urls())
    assert seen.faults == []
    fleet.down()


@pytest.mark.timeout(300)
def test_no_token_passes_the_proxy_and_a_link_signs_in_at_the_master(
    yarn_house, hadoop, browser
) -> None:
    """YARN proves nobody here: the proxy's page leads to the master's own, where a link is good."""
    fleet = Fleet(yarn_house, hadoop, "closed")
    fleet.up(yarn_house.spec("closed", replicas=ONE))
    fleet.settled(1)
    far = WatchedPage.of(browser)
    far.page.goto(proxied(fleet))
    leads = far.page.locator("#signing-address")
    expect(leads).to_be_visible(timeout=SHOWN_MS)
    assert leads.get_attribute("href") == f"{fleet.url}/dashboard"
    expect(far.page.locator("#token")).to_be_hidden()

    near = WatchedPage.of(browser)
    link = fleet.tarn("dashboard").strip()
    address, _, code = link.partition("#code=")
    assert address == f"{fleet.url}/dashboard"
    near.page.goto(link)
    expect(near.page.locator("#instances-rows tr")).to_have_count(1, timeout=SHOWN_MS)
    assert near.page.url == address
    session = near.page.evaluate("sessionStorage.getItem('tarn-session')")
    assert session
    secrets = (fleet.api_token, code, session)
    asked = "\n".join([*far.urls(), *near.urls()[1:]])
    assert not [secret for secret in secrets if secret in asked]
    log = "\n".join(yarn_house.tarn("logs", "-c", "closed").stdout.splitlines())
    assert not [secret for secret in secrets if secret in log]
    assert near.faults == []

    again = WatchedPage.of(browser)
    again.page.goto(link)
    expect(again.page.locator("#signing-why")).to_contain_text("used already", timeout=SHOWN_MS)
    fleet.down()
