"""Whether a browser sent a write for a page of somebody else. Pure.

A browser adds what it knows of a user (a cookie, a ticket) to every request, whichever page made
it. It also says which page that was, and no page can change what it says. Programs say nothing.
"""

import ipaddress

from tarn.domain import ProxyRule
from tarn.http.csrf import csrf_of
from tarn.http.request_info import RequestInfo

__all__ = ["cross_site_reason", "csrf_through_proxy", "is_through_proxy"]

_OWN_SITES = (b"same-origin", b"none")


def cross_site_reason(asked: RequestInfo) -> str:
    """Return why *asked* comes from a page that is not this master's; empty: it does not.

    A page that a proxy shows under its own address is foreign, too: `csrf_through_proxy` says what
    helps.
    """
    sites = asked.values(b"sec-fetch-site")
    if any(site.strip().lower() not in _OWN_SITES for site in sites):
        return "a page of another site sent it"
    origins, hosts = asked.values(b"origin"), asked.values(b"host")
    if not origins:
        return ""
    if len(origins) == len(hosts) == 1 and _same(origins[0], hosts[0]):
        return ""
    return "its Origin is not this master"


def is_through_proxy(asked: RequestInfo, rule: ProxyRule | None) -> bool:
    """Say whether *asked* came through the runtime's proxy, which says so by its cookie.

    It hands on nothing that a browser says of the page: what came with that came without it.
    """
    if rule is None or not _may_be_proxys(asked, rule):
        return False
    pairs = (pair for line in asked.values(b"cookie") for pair in line.split(b";"))
    return any(pair.partition(b"=")[0].strip() == rule.cookie.encode() for pair in pairs)


def csrf_through_proxy(asked: RequestInfo, rule: ProxyRule | None) -> str:
    """Return what a page sent in ``?csrf=`` through the runtime's proxy; empty: nothing counts.

    Only there a page of the master has another Origin. A browser that says itself that another
    site's page sent it did not come that way.
    """
    return "" if rule is None or not _may_be_proxys(asked, rule) else csrf_of(asked.query)


def _may_be_proxys(asked: RequestInfo, rule: ProxyRule) -> bool:
    """Say whether *asked* came from the proxy's address, and without what it does not hand on.

    A machine that speaks to itself may do so from any of its loopback addresses. Nobody is proven
    by that: only what a page must show.
    """
    if asked.values(b"sec-fetch-site"):
        return False
    near = _loopback(asked.peer) and any(map(_loopback, rule.addresses))
    return near or asked.peer in rule.addresses


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _same(origin: bytes, host: bytes) -> bool:
    own = host.strip().lower()
    return bool(own) and origin.strip().lower() in (b"http://" + own, b"https://" + own)
