"""The way into a dashboard: which address, with a code or without one, and how it is opened."""

import stat

import pytest
from fake_fleet import API_TOKEN, URL, FakeFleet

from tarn.cluster import Cluster
from tarn.cluster.read.card import anchor
from tarn.cluster.read.dashboard import Address, opened
from tarn.errors import NotAuthorizedError, RefusedError, TarnError, UnreachableError
from tarn.interfaces import ClusterRef

PROXY = "http://rm.example:8088/proxy/application_1_2"


def test_the_address_holds_a_code_behind_the_hash(cluster: Cluster) -> None:
    """A browser sends nothing behind the hash to anybody; a notebook gets a link."""
    address = cluster.dashboard()
    assert (address, address.signs_in) == (f"{URL}/dashboard#code=c0de", True)
    assert "href='http://127.0.0.1:40001/dashboard#code=c0de'" in address._repr_html_()
    assert API_TOKEN not in repr(address)


@pytest.mark.parametrize(
    "refusal",
    [RefusedError("no token is asked for"), NotAuthorizedError("alice", "make a link")],
)
def test_without_an_api_token_the_address_is_the_page_itself(
    cluster: Cluster, fleet: FakeFleet, refusal: TarnError
) -> None:
    """Nothing is asked for, or a browser shows its own ticket."""
    fleet.refusal = refusal
    assert cluster.dashboard() == f"{URL}/dashboard"


def test_whoever_is_not_let_in_is_told_so(cluster: Cluster, fleet: FakeFleet) -> None:
    """An address without a code would only lead to the same answer."""
    fleet.refusal = NotAuthorizedError("anonymous", "ask")
    with pytest.raises(NotAuthorizedError):
        cluster.dashboard()


def test_through_a_proxy_no_code_is_asked_for(cluster: Cluster, fleet: FakeFleet) -> None:
    """It would stand in the proxy's log: the page is shown below the proxy, as YARN does it."""
    assert fleet.ref is not None
    fleet.answers = {URL: UnreachableError("blocked", where=URL), PROXY: None}
    fleet.ref = ClusterRef("demo", "fake", fleet.ref.epoch, URL, proxy_url=PROXY)
    assert cluster.dashboard() == f"{PROXY}/dashboard"
    assert "link" not in fleet.verbs()


def test_a_browser_is_started_with_a_file_of_the_owners_alone(tmp_path) -> None:
    """What stands in its arguments all users of the machine may read: no code does."""
    page, started = tmp_path / "dashboard.html", []
    page.write_text("of somebody else")
    page.chmod(0o644)
    address = Address("http://127.0.0.1:1/dashboard#code=c0de&'\"")
    assert opened(address, page, lambda url: not started.append(url))
    assert started == [page.as_uri()]
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert "0; url=http://127.0.0.1:1/dashboard#code=c0de&amp;&#x27;&quot;'" in text
    assert "no-referrer" in text


def test_a_page_that_is_a_link_elsewhere_is_not_followed(tmp_path) -> None:
    """Nor is a folder that cannot be written a bug: the person opens the link themselves."""
    other, page = tmp_path / "other", tmp_path / "page.html"
    other.write_text("untouched")
    page.symlink_to(other)
    assert opened(Address("http://a/dashboard"), page, lambda _url: True)
    assert other.read_text() == "untouched"
    with pytest.raises(TarnError, match="cannot be written"):
        opened(Address("http://a/dashboard"), tmp_path / "none" / "x", lambda _url: True)


def test_only_web_addresses_become_links() -> None:
    """Whatever a master might say of itself."""
    assert anchor("javascript:alert(1)", "a<b") == "a&lt;b"
    assert anchor("http://a/?b'c", "x").startswith("<a href='http://a/?b&#x27;c' ")
