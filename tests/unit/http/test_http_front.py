"""The page at `/`: its links work under any prefix, and hold no more than text."""

from urllib.parse import urlsplit

import attrs
import httpx
import pytest
from fake_master import TOKEN, FakeMaster, snapshot
from hypothesis import given
from hypothesis import strategies as st
from page_links import Links

from tarn.domain import ProxyRule
from tarn.http.pages import PAGES, front

PREFIX = "/proxy/application_1700000000000_0001"


@pytest.mark.parametrize(
    ("url", "base", "under"),
    [
        ("http://nm1:40001/", "", "http://nm1:40001/"),
        ("http://nm1:40001", "", "http://nm1:40001/"),
        (f"http://rm:8088{PREFIX}/", PREFIX, f"http://rm:8088{PREFIX}/"),
        (f"http://rm:8088{PREFIX}", PREFIX, f"http://rm:8088{PREFIX}/"),
        (f"https://rm:8090{PREFIX}", f"{PREFIX}/", f"https://rm:8090{PREFIX}/"),
        ("https://knox/gateway/tarn/", "", "https://knox/gateway/tarn/"),
    ],
)
def test_every_link_stays_under_its_prefix(url: str, base: str, under: str) -> None:
    """With and without a slash at the end, behind whatever stands before."""
    links = Links(front(snapshot(), base), url)
    assert links.targets() == [f"{under}{path}" for path, _ in PAGES]
    assert not any(urlsplit(href).netloc or href.startswith("/") for href in links.hrefs)


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_the_page_shows_is_text(name: str, reason: str) -> None:
    """No name or reason becomes a tag."""
    page = front(attrs.evolve(snapshot(), name=name, reason=reason), "")
    plain = front(attrs.evolve(snapshot(), name="", reason=""), "")
    assert Links(page, "http://x/").tags == Links(plain, "http://x/").tags


def test_each_page_is_there_and_the_base_is_told_behind_the_proxy_only() -> None:
    """The cookie is the proxy's; who asks directly stays where they are."""
    rule = ProxyRule(frozenset({"10.0.0.9"}), "anna", base=PREFIX)
    headers = {"X-TARN-Token": TOKEN.decode()}
    with (
        FakeMaster(proxy=rule) as master,
        httpx.Client(base_url=master.url, headers=headers, trust_env=False) as web,
    ):
        direct = web.get("/")
        assert direct.headers["Content-Type"].startswith("text/html")
        assert b"<base" not in direct.content
        through = web.get("/", headers={"Cookie": "proxy-user=dr.who"})
        assert f'<base href="{PREFIX}/">'.encode() in through.content
        for path, _ in PAGES:
            assert web.get(f"/{path}").status_code in (200, 503), path
        assert web.get("/nowhere").status_code == 404
