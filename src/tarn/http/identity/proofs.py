"""What a master can check besides its api token: tickets, trusted proxies, how people are called.

Pure, but for what they are asked for elsewhere.
"""

import hmac
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import attrs

from tarn.domain.spec import TrustedProxy
from tarn.errors import ConfigError
from tarn.http.blocking_pool import BlockingPool
from tarn.http.identity.people import People

__all__ = [
    "AcceptedTicket",
    "KnownProxy",
    "Network",
    "Proofs",
    "TicketChecker",
    "connects",
    "network",
    "trusted",
]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAPPED = 96
"""IPv4 stands in the last 32 bits of ``::ffff:0:0/96``."""


@attrs.frozen
class AcceptedTicket:
    """A ticket that proved somebody."""

    principal: str
    """With its realm."""
    answer: bytes = attrs.field(default=b"", repr=False)
    """For the client, which may want proof of the master too."""


class TicketChecker(Protocol):
    """Checks tickets of Kerberos; on any thread, several at a time."""

    def accept(self, token: bytes) -> AcceptedTicket:
        """Return who sent *token*; ``NotAuthorizedError`` says why it proves nobody. May block."""
        ...


@attrs.frozen
class KnownProxy:
    """A trusted proxy, as the master knows it."""

    name: str
    network: Network
    by: str
    """``mtls``, ``token`` or ``kerberos``."""
    token: bytes | None = attrs.field(default=None, repr=False)
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def at(self, peer: str) -> bool:
        """Say whether it may connect from the address *peer*; no other text is."""
        return _is_in(peer, self.network)

    def holds(self, token: bytes) -> bool:
        """Say whether *token* is its own; takes as long for any that is as long."""
        return self.token is not None and hmac.compare_digest(token, self.token)

    def speaks_for(self, user: str, groups: frozenset[str]) -> bool:
        """Say whether it may name *user*, who is in *groups*."""
        return bool(self.users & {"*", user}) or bool(self.groups & groups)


@attrs.frozen
class Proofs:
    """What a master can check, and where it looks people up."""

    trusted: tuple[KnownProxy, ...] = ()
    tickets: TicketChecker | None = None
    pool: BlockingPool | None = None
    """Where tickets are checked; there is one where there are *tickets*."""
    people: People | None = None
    """None: nobody has groups, or a short name."""

    async def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*; ``ProviderError``: nobody knows in time."""
        return frozenset() if self.people is None else await self.people.groups(user)

    def close(self) -> None:
        """End what looks people up. Idempotent."""
        if self.pool is not None:
            self.pool.close()


def network(text: str) -> Network:
    """Return the network of an address, or of one with a prefix; ``ValueError``: it is neither.

    An address with bits beyond its prefix (``10.0.0.5/24``) is refused: one of both is a mistake.
    """
    one = ipaddress.ip_network(text)
    if isinstance(one, ipaddress.IPv6Network) and one.prefixlen >= MAPPED:
        mapped = one.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.ip_network(f"{mapped}/{one.prefixlen - MAPPED}")
    return one


def connects(proxies: Iterable[TrustedProxy]) -> Callable[[str], bool]:
    """Return what says of a numeric address that one of the trusted *proxies* connects from it."""
    networks = [network(one.address) for one in proxies]
    return lambda peer: any(_is_in(peer, one) for one in networks)


def trusted(proxies: tuple[TrustedProxy, ...], tokens: Mapping[str, str]) -> tuple[KnownProxy, ...]:
    """Return the trusted proxies of a spec, with the *tokens* that were brought for them."""
    return tuple(
        KnownProxy(
            one.name,
            network(one.address),
            one.authenticated_by,
            _token(one, tokens) if one.authenticated_by == "token" else None,
            frozenset(one.users),
            frozenset(one.groups),
        )
        for one in proxies
    )


def _is_in(peer: str, place: Network) -> bool:
    """Say whether the numeric address *peer* is in the network *place*; False for other text."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address) in place


def _token(proxy: TrustedProxy, tokens: Mapping[str, str]) -> bytes:
    token = tokens.get(proxy.name, "")
    if not token:
        raise ConfigError(
            f"the master did not get the token of '{proxy.name}'",
            code="TARN-3702",
            where="api.trusted_proxies",
            next_step="`tarn down`, then `tarn up`: it is read on the client's machine",
        )
    return token.encode()
