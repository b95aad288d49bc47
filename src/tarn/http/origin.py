"""Whether a browser sent a write for a page of somebody else. Pure.

A browser adds what it knows of a user (a cookie, a ticket) to every request, whichever page made
it. It also says which page that was, and no page can change what it says. Programs say nothing.
"""

from tarn.http.asked import Asked

__all__ = ["foreign"]

_OWN_SITES = (b"same-origin", b"none")


def foreign(asked: Asked) -> str:
    """Return why *asked* comes from a page that is not this master's; empty: it does not.

    A page that a proxy shows under its own address is foreign too: no page of the master writes.
    """
    sites = asked.values(b"sec-fetch-site")
    if any(site.strip().lower() not in _OWN_SITES for site in sites):
        return "the page of another site sent it"
    origins, hosts = asked.values(b"origin"), asked.values(b"host")
    if not origins:
        return ""
    if len(origins) == len(hosts) == 1 and _same(origins[0], hosts[0]):
        return ""
    return "its Origin is not this master"


def _same(origin: bytes, host: bytes) -> bool:
    own = host.strip().lower()
    return bool(own) and origin.strip().lower() in (b"http://" + own, b"https://" + own)
