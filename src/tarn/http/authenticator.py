"""Authentication: the identity that a request proves, never the one that it claims.

A name in a header counts only from a trusted proxy that proved itself with this very request; a
name in the cookie of the runtime's proxy (`ProxyRule`) only from that proxy's addresses. A proof
that cannot be read, contradicts another one, or is not checked in time is refused.
"""

import base64
import hmac
import logging
from collections.abc import Mapping
from typing import Protocol

import attrs

from tarn.domain import ANONYMOUS, Principal, ProxyRule
from tarn.domain.access import LOAD_BALANCER
from tarn.domain.spec import TrustedProxy
from tarn.errors import ConfigError, NotAuthorizedError, ProviderError
from tarn.http.blocking_pool import BlockingPool
from tarn.http.issued_tokens import Nonces, Sessions
from tarn.http.request import (
    Claims,
    Hosts,
    Identity,
    RequestInfo,
    claims,
    cookie_user,
    is_name,
    ticket,
)
from tarn.http.users import People
from tarn.plain.credentials import (
    ANSWER_HEADER,
    SCHEME,
    RequestProof,
    SignedParts,
    answer_proof,
    load_balancer_token,
    proof_key,
    scrape_token,
)
from tarn.tls.contexts import Network, is_in, network

__all__ = [
    "OWNER",
    "AcceptedTicket",
    "Authenticator",
    "KnownProxy",
    "Proofs",
    "TicketChecker",
    "trusted",
]

_LOG = logging.getLogger(__name__)


@attrs.frozen
class AcceptedTicket:
    """A valid Kerberos ticket."""

    principal: str
    """With its realm."""
    answer: bytes = attrs.field(default=b"", repr=False)
    """For the client, which may want a proof of the master too."""


class TicketChecker(Protocol):
    """Checks Kerberos tickets; on any thread, several at a time."""

    def accept(self, token: bytes) -> AcceptedTicket:
        """Return the ticket in *token*. May block.

        Raises:
            NotAuthorizedError: It is not valid; the text says why.
        """
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

    @property
    def identity(self) -> Identity:
        """The identity of the proxy itself, before it names a user."""
        return Identity(Principal(self.name, via="trusted-proxy"))

    def at(self, peer: str) -> bool:
        """Return whether it may connect from the address *peer*; False for other text."""
        return is_in(peer, self.network)

    def holds(self, token: bytes) -> bool:
        """Return whether *token* is its own, compared in constant time."""
        return self.token is not None and hmac.compare_digest(token, self.token)

    def speaks_for(self, user: str, groups: frozenset[str]) -> bool:
        """Return whether it may name *user*, who is in *groups*."""
        return bool(self.users & {"*", user}) or bool(self.groups & groups)


@attrs.frozen
class Proofs:
    """The proofs that a master accepts, and its directory of users."""

    trusted: tuple[KnownProxy, ...] = ()
    tickets: TicketChecker | None = None
    pool: BlockingPool | None = None
    """Where tickets are checked; never None with *tickets*."""
    people: People | None = None
    """None: no user has groups or a short name."""

    async def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*.

        Raises:
            ProviderError: The directory did not answer in time.
        """
        return frozenset() if self.people is None else await self.people.groups(user)

    def close(self) -> None:
        """End the threads that look users up. Idempotent."""
        if self.pool is not None:
            self.pool.close()


def trusted(proxies: tuple[TrustedProxy, ...], tokens: Mapping[str, str]) -> tuple[KnownProxy, ...]:
    """Return the trusted proxies of a spec, with their *tokens* by name.

    Raises:
        ConfigError: A token is missing.
    """
    known = []
    for one in proxies:
        by_token = one.authenticated_by == "token"
        token = tokens.get(one.name, "") if by_token else ""
        if by_token and not token:
            raise ConfigError(
                f"the master did not get the token of '{one.name}'",
                code="TARN-3702",
                where="api.trusted_proxies",
                next_step="`tarn down`, then `tarn up`: it is read on the client's machine",
            )
        known.append(
            KnownProxy(
                one.name,
                network(one.address),
                one.authenticated_by,
                token.encode() or None,
                frozenset(one.users),
                frozenset(one.groups),
            )
        )
    return tuple(known)


# Any holder of the api token.
OWNER = Principal("owner", via="token")
# Any holder of the token for metrics, which is derived from the api token.
SCRAPER = Principal("scraper", via="scrape")
# The only routes that this token opens.
SCRAPED = ("/metrics", "/api/v1/sd")
# All that a load balancer's token opens.
OF_TRITON = "/triton/"

_BEARER = {"WWW-Authenticate": 'Bearer realm="tarn"'}
_NEGOTIATE = {"WWW-Authenticate": "Negotiate"}


class Authenticator:
    """Checks the proofs of requests. Lives on one event loop.

    Without an api token and without Kerberos every request is let in, as anonymous unless it
    proves another principal.

    Args:
        api_token: The cluster's; None if the master asks for none.
        proxy: The runtime's proxy, whose cookie names a user; None if there is none.
        proofs: What else the master accepts.
        sessions: Of users who signed in with the api token; None without an api token.
        hosts: The addresses at which this master is reached.
    """

    def __init__(
        self,
        api_token: bytes | None,
        proxy: ProxyRule | None = None,
        proofs: Proofs | None = None,
        sessions: Sessions | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        self._api_token = api_token
        self._proxy = proxy
        self._proofs = proofs or Proofs()
        self._sessions = sessions
        by_token = any(one.by == "token" for one in self._proofs.trusted)
        self._reads_tokens = api_token is not None or by_token
        self._hosts = hosts or Hosts()
        self._scrape_token = None if api_token is None else scrape_token(api_token)
        self._load_balancer = load_balancer_token(api_token)
        self._nonces = Nonces()
        self._keys = self._signers()

    def __repr__(self) -> str:
        return f"Authenticator(api_token={'none' if self._api_token is None else '***'})"

    def hears_of_others(self, peer: str) -> bool:
        """Return whether a proxy that speaks for others may connect from the address *peer*."""
        rule = self._proxy
        if rule is not None and rule.proves and peer in rule.addresses:
            return True
        return any(one.at(peer) for one in self._proofs.trusted)

    async def identify(self, asked: RequestInfo) -> Identity:
        """Return the identity that *asked* proves, or a refusal.

        A signature, token or session counts first, then a ticket, then a proxy's certificate, then
        the cookie of the runtime's proxy. A request with a wrong proof is refused, whatever else it
        brings.
        """
        try:
            claimed = claims(asked)
            self._one_proof(claimed)
        except ValueError as error:
            return Identity(None, 400, str(error))
        try:
            return await self._spoken_for(await self._proven(asked, claimed), asked, claimed)
        except ProviderError as error:
            return Identity(None, 503, error.found)
        except Exception:  # noqa: BLE001 (anything that a directory of users raises is a refusal)
            _LOG.exception("a user could not be looked up")
            found = "Your user name could not be looked up; the master's log says why"
            return Identity(None, 503, found)

    def _one_proof(self, claimed: Claims) -> None:
        both = claimed.token is not None and claimed.ticket is not None
        if both and self._reads_tokens and self._proofs.tickets is not None:
            raise ValueError("A token and a ticket came together: send one of them")
        both = claimed.token is not None and claimed.session is not None
        if both and self._reads_tokens and self._sessions is not None:
            raise ValueError("A token and a session came together: send one of them")
        both = claimed.signed is not None and (claimed.token or claimed.session) is not None
        if both and self._reads_tokens:
            raise ValueError("A signature and another proof came together: send one of them")

    async def _proven(self, asked: RequestInfo, claimed: Claims) -> Identity:
        """Return the identity that is proven, before anybody is named by it."""
        if claimed.signed is not None and self._reads_tokens:
            return self._by_signature(asked, claimed.signed)
        if claimed.token is not None and (self._reads_tokens or self._from_load_balancer(asked)):
            return self._by_token(asked, claimed.token)
        if claimed.session is not None and self._sessions is not None:
            # Before a ticket, which a browser adds by itself.
            return self._by_session(self._sessions, claimed.session)
        if claimed.ticket is not None and self._proofs.tickets is not None:
            return await self._by_ticket(asked, claimed.ticket)
        found = self._by_certificate(asked) or await self._by_cookie(asked)
        if found is not None:
            return found
        asks = self._api_token is not None or self._proofs.tickets is not None
        return self._unidentified() if asks else Identity(ANONYMOUS, ambient=True)

    def _by_token(self, asked: RequestInfo, token: bytes) -> Identity:
        if self._from_load_balancer(asked):
            return Identity(LOAD_BALANCER)
        if self._api_token is not None and hmac.compare_digest(token, self._api_token):
            return Identity(OWNER)
        if self._scrape_token is not None and hmac.compare_digest(token, self._scrape_token):
            if asked.path in SCRAPED:
                return Identity(SCRAPER)
            found = f"This token opens {' and '.join(SCRAPED)}, and nothing else"
            return Identity(None, 403, found)
        for one in self._proofs.trusted:
            # The token is compared first: the time says nothing about the addresses that count.
            if one.by == "token" and one.holds(token) and one.at(asked.peer):
                return one.identity
        return self._unidentified()

    def _from_load_balancer(self, asked: RequestInfo) -> bool:
        token = asked.values(b"x-tarn-token")
        known = len(token) == 1 and hmac.compare_digest(token[0], self._load_balancer)
        return known and asked.path.startswith(OF_TRITON)

    def _signers(self) -> tuple[tuple[bytes, KnownProxy | None], ...]:
        """Return the keys that may sign a request, each with its proxy; None for the owner."""
        owner = () if self._api_token is None else ((proof_key(self._api_token), None),)
        others = ((proof_key(one.token), one) for one in self._proofs.trusted if one.token)
        return (*owner, *others)

    def _by_signature(self, asked: RequestInfo, said: bytes) -> Identity:
        """Return the signer of the request; a signature counts once, and only if sent to us."""
        proof = RequestProof.parse(said.decode("latin-1"))
        if proof is None:
            found = "Sign the request with this nonce" if not said else "It is not a signature"
            return self._sign_again(found)
        host = asked.text(b"host")
        parts = SignedParts(asked.method, host, asked.target, asked.text(b"if-match"))
        for key, proxy in self._keys:
            if not proof.made_with(key, parts):
                continue
            if proxy is not None and not proxy.at(asked.peer):
                break
            if not self._hosts.reached(host, asked.local, tls=asked.tls):
                found = (
                    f"The request was sent to {host or 'an address without a name'}, which is "
                    "not an address of this master: the program that listens there passed it "
                    "on. If that is intended, add it to api.hosts"
                )
                return Identity(None, 421, found)
            if not self._nonces.take(proof.nonce, proof.count):
                return self._sign_again("The nonce has expired, or the signature was used before")
            headers = {ANSWER_HEADER: answer_proof(key, proof.signature)}
            who = Identity(OWNER) if proxy is None else proxy.identity
            return attrs.evolve(who, headers=headers, digest=proof.digest)
        return self._unidentified()

    def _sign_again(self, found: str) -> Identity:
        nonce = self._nonces.give()
        return Identity(None, 401, found, {"WWW-Authenticate": f'{SCHEME} nonce="{nonce}"'})

    def _by_session(self, sessions: Sessions, said: bytes) -> Identity:
        session = sessions.read(said)
        if session is not None:
            return Identity(OWNER, session=session)
        return Identity(
            None, 401, "The session has ended, or belongs to another cluster: sign in", _BEARER
        )

    async def _by_ticket(self, asked: RequestInfo, encoded: bytes) -> Identity:
        tickets, pool, people = self._proofs.tickets, self._proofs.pool, self._proofs.people
        assert tickets is not None
        assert pool is not None
        token = ticket(encoded)
        if token is None:
            return Identity(None, 401, "The ticket is not base64", _NEGOTIATE)
        try:
            accepted = await pool.ask(lambda: tickets.accept(token))
        except NotAuthorizedError as error:
            return Identity(None, 401, error.next_step, _NEGOTIATE)
        # The master proves itself to the client, in a refusal too.
        half = f"Negotiate {base64.b64encode(accepted.answer).decode()}".strip()
        headers = {"WWW-Authenticate": half}
        user = await people.short(accepted.principal) if people is not None else ""
        if not is_name(user):
            found = "The cluster's auth_to_local rules map your principal to no user"
            return Identity(None, 403, found, headers)
        for one in self._proofs.trusted:
            if one.by == "kerberos" and one.name == user and one.at(asked.peer):
                return attrs.evolve(one.identity, headers=headers)
        principal = Principal(user, await self._proofs.groups(user), "spnego")
        return Identity(principal, headers=headers)

    def _by_certificate(self, asked: RequestInfo) -> Identity | None:
        every = (one for one in self._proofs.trusted if one.by == "mtls" and asked.certificate)
        known = (one for one in every if one.name == asked.certificate and one.at(asked.peer))
        return next((one.identity for one in known), None)

    async def _by_cookie(self, asked: RequestInfo) -> Identity | None:
        rule = self._proxy
        if rule is None or not rule.proves or asked.peer not in rule.addresses:
            return None
        user = cookie_user(asked, rule.cookie.encode())
        if user is None:
            return None
        principal = Principal(user, await self._proofs.groups(user), "rm-proxy")
        return Identity(principal, named=user, ambient=True)

    async def _spoken_for(self, who: Identity, asked: RequestInfo, claimed: Claims) -> Identity:
        """Return the identity that *who* names; only a trusted proxy may name another user."""
        principal, user = who.principal, claimed.user
        if principal is None or user is None:
            return who
        match principal.via:
            case "trusted-proxy":
                return await self._named(who, principal.user, claimed)
            case "spnego" if user != principal.user.encode():
                return who.refused(
                    403,
                    f"{principal.user} may not speak for others: only a trusted proxy names users",
                )
            case "token" | "scrape" if self._by_certificate(asked) is not None:
                # Next to the api token a name is ignored: the token opens more than any name. But a
                # proxy that proved itself must not get these rights on behalf of a user.
                return who.refused(400, "The api token and X-TARN-User came together: send one")
        return who

    async def _named(self, who: Identity, name: str, claimed: Claims) -> Identity:
        """Return the user that the trusted proxy *name*, proven as *who*, speaks for."""
        assert claimed.user is not None
        if claimed.signed is not None:  # a program in between could have changed the name
            return who.refused(
                400, "The signature does not cover X-TARN-User: send the token itself, over HTTPS"
            )
        user = claimed.user.decode("latin-1")
        if not is_name(user):
            return who.refused(
                400,
                "X-TARN-User is not a valid user name: use at most 128 letters, digits and . _ "
                "@ $ + = -",
            )
        groups = await self._proofs.groups(user)
        proxy = next(one for one in self._proofs.trusted if one.name == name)  # a spec has one each
        if not proxy.speaks_for(user, groups):
            return who.refused(403, f"The trusted proxy {name} may not speak for this user")
        principal = ANONYMOUS if user == ANONYMOUS.user else Principal(user, groups, "proxy")
        return attrs.evolve(who, principal=principal, named=user)

    def _unidentified(self) -> Identity:
        """Return the refusal of a request without a proof; it names the proofs that count here."""
        if self._proofs.tickets is None:
            found = "The api token is missing or wrong: send it in the header X-TARN-Token"
            return Identity(None, 401, found, _BEARER)
        found = "Send a Kerberos ticket (curl --negotiate -u :)"
        if self._reads_tokens:
            found += ", or the api token in the header X-TARN-Token"
        return Identity(None, 401, found, _NEGOTIATE)
