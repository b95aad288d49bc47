"""By which addresses this master is reached: what a ``Host`` header may name.

A page whose name a stranger's name server first leads to the stranger, and then to this master (DNS
rebinding), is no other site to a browser: the page and the master have one name. But that name is
not one of the master's. Pure.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Self

import attrs

__all__ = ["Hosts"]


@attrs.frozen
class Hosts:
    """The names of one master, in lower case. Its numeric addresses each connection tells."""

    names: frozenset[str] = frozenset()
    """Without a port."""
    configured: frozenset[str] = frozenset()
    """Of ``api.hosts``: names, or names with another port, by which others lead here."""

    @classmethod
    def of(cls, names: Iterable[str], configured: Iterable[str] = ()) -> Self:
        """Return the hosts of a master that is called *names*: a short form of each counts, too.

        Nobody else can have a name of one part looked up: a name server adds the site's own.
        """
        every = {name.lower() for name in names if name}
        short = {name.partition(".")[0] for name in every if not _numeric(name)}
        return cls(frozenset(every | short), frozenset(one.lower() for one in configured))

    def known(self, host: str, local: tuple[str, int]) -> bool:
        """Say whether a ``Host`` header names this master.

        Args:
            host: As it was sent; empty: none was, which no browser does.
            local: Address and port at which the connection arrived.
        """
        if not host:
            return True
        name, _ = _parts(host)
        return name in self.configured or host.lower() in self.configured or name in self._of(local)

    def reached(self, host: str, local: tuple[str, int], *, tls: bool = False) -> bool:
        """Say whether a client that sent ``Host`` reached this master and nobody in between.

        The port must be the master's own, but where `configured` says otherwise.
        """
        name, port = _parts(host)
        own = local[1] == (port if port is not None else 443 if tls else 80)
        if host.lower() in self.configured or (own and name in self.configured):
            return True
        return own and name in self._of(local)

    def shown(self, local: tuple[str, int]) -> tuple[str, ...]:
        """Return all names that are known, for people."""
        return tuple(sorted(self._of(local) | self.configured))

    def _of(self, local: tuple[str, int]) -> frozenset[str]:
        return self.names | frozenset(_near(local[0]))


def _near(address: str) -> Iterator[str]:
    """Yield by what a connection that arrived at *address* may call it."""
    if _numeric(address):
        yield address.lower()
        if ipaddress.ip_address(address).is_loopback:
            yield "localhost"


def _parts(host: str) -> tuple[str, int | None]:
    """Return name and port of a ``Host`` header; the name is empty where it cannot be read."""
    text = host.strip().lower()
    name, colon, port = text.rpartition(":")
    if text.endswith("]") or not colon:
        name, port = text, ""
    elif not (port.isascii() and port.isdecimal() and len(port) <= 5):  # noqa: PLR2004 (65535)
        return "", None
    return name.removeprefix("[").removesuffix("]"), int(port) if port else None


def _numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
