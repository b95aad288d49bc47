"""Who asks: what somebody proved, never what they claim.

A name in a header is believed only from a trusted proxy that proved itself with this very request;
a name in the cookie of the runtime's proxy (`ProxyRule`), only from that proxy's addresses. Every
doubt is a no: what cannot be read, contradicts itself, or is not known in time.
"""

import base64
import hmac
import logging

import attrs

from tarn.domain import ANONYMOUS, Principal, ProxyRule
from tarn.domain.request_proof import (
    ANSWER_HEADER,
    SCHEME,
    RequestProof,
    SignedParts,
    answer_proof,
    proof_key,
    scrape_token,
)
from tarn.errors import NotAuthorizedError, ProviderError
from tarn.http.hosts import Hosts
from tarn.http.identity.claims import Claims, claims, cookie_user, is_name, ticket
from tarn.http.identity.proofs import KnownProxy, Proofs
from tarn.http.nonces import Nonces
from tarn.http.request_info import Identity, RequestInfo
from tarn.http.sessions import BrowserSession, Sessions

__all__ = ["OWNER", "Authenticator"]

_LOG = logging.getLogger(__name__)

OWNER = Principal("owner", via="token")
"""Everybody who holds the api token."""
SCRAPER = Principal("scraper", via="scrape")
"""Everybody who holds the token of the metrics, which is derived from the api token."""
SCRAPED = ("/metrics", "/api/v1/sd")
"""All that it opens."""

AMBIENT = ("none", "rm-proxy")
"""What a browser may send for any page. A ticket is none: it holds the name of its host."""
_BEARER = {"WWW-Authenticate": 'Bearer realm="tarn"'}
_NEGOTIATE = {"WWW-Authenticate": "Negotiate"}


@attrs.frozen
class _Proof:
    """Somebody, before it is looked at for whom they speak."""

    who: Principal | KnownProxy
    answer: str = ""
    """For ``WWW-Authenticate`` of the answer: the master's half of a ticket's proof."""
    session: BrowserSession | None = None
    answer_proof: str = ""
    """For `ANSWER_HEADER` of the answer: what proves the master to who signed the request."""
    digest: str | None = None


class Authenticator:
    """Proves principals. Lives on one event loop.

    Where neither an api token nor tickets are asked for everybody is let in, anonymous unless
    proven.

    Args:
        api_token: None: nobody is asked for one.
        proxy: Whose cookie names a user; None: nobody's.
        proofs: What else proves somebody.
        sessions: Of who signed in with the api token; None: nobody does.
        hosts: By which addresses this master is reached.
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
        self._nonces = Nonces()
        self._keys = self._signers()

    def __repr__(self) -> str:
        return f"Authenticator(api_token={'none' if self._api_token is None else '***'})"

    def hears_of_others(self, peer: str) -> bool:
        """Say whether somebody who speaks for others may connect from the address *peer*."""
        rule = self._proxy
        if rule is not None and rule.proves and peer in rule.addresses:
            return True
        return any(one.at(peer) for one in self._proofs.trusted)

    async def identify(self, asked: RequestInfo) -> Identity:
        """Return who asks, or a refusal of somebody who may not.

        A token or a session counts first, then a ticket, then a proxy's certificate, then the
        cookie of the runtime's proxy. Everybody who brings a wrong one is refused, whatever else
        they bring.
        """
        try:
            claimed = claims(asked)
            self._one_proof(claimed)
        except ValueError as error:
            return Identity(None, 400, str(error))
        try:
            proven = await self._proven(asked, claimed)
            if isinstance(proven, Identity):
                return proven
            said = await self._spoken_for(proven.who, asked, claimed)
        except ProviderError as error:
            return Identity(None, 503, error.found)
        except Exception:  # noqa: BLE001 (whatever a directory of users raises is a no, and logged)
            _LOG.exception("a user could not be looked up")
            found = "Your user name could not be looked up; the master's log says why"
            return Identity(None, 503, found)
        headers = {"WWW-Authenticate": proven.answer} if proven.answer else {}
        if proven.answer_proof:
            headers[ANSWER_HEADER] = proven.answer_proof
        return attrs.evolve(
            said,
            headers={**said.headers, **headers},
            session=proven.session,
            digest=proven.digest,
            ambient=not isinstance(proven.who, KnownProxy) and proven.who.via in AMBIENT,
        )

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

    async def _proven(self, asked: RequestInfo, claimed: Claims) -> "_Proof | Identity":
        if claimed.signed is not None and self._reads_tokens:
            return self._by_signature(asked, claimed.signed)
        if claimed.token is not None and self._reads_tokens:
            return self._by_token(asked, claimed.token)
        if claimed.session is not None and self._sessions is not None:
            # before a ticket, which a browser adds by itself
            return self._by_session(self._sessions, claimed.session)
        if claimed.ticket is not None and self._proofs.tickets is not None:
            return await self._by_ticket(asked, claimed.ticket)
        found = self._by_certificate(asked) or await self._by_cookie(asked)
        if found is not None:
            return _Proof(found)
        asks = self._api_token is not None or self._proofs.tickets is not None
        return self._unidentified() if asks else _Proof(ANONYMOUS)

    def _by_token(self, asked: RequestInfo, token: bytes) -> "_Proof | Identity":
        if self._api_token is not None and hmac.compare_digest(token, self._api_token):
            return _Proof(OWNER)
        if self._scrape_token is not None and hmac.compare_digest(token, self._scrape_token):
            if asked.path in SCRAPED:
                return _Proof(SCRAPER)
            found = f"This token opens {' and '.join(SCRAPED)}, and nothing else"
            return Identity(None, 403, found)
        for one in self._proofs.trusted:
            # compared first: how long it takes says nothing about where a token counts
            if one.by == "token" and one.holds(token) and one.at(asked.peer):
                return _Proof(one)
        return self._unidentified()

    def _signers(self) -> tuple[tuple[bytes, Principal | KnownProxy], ...]:
        """Return whoever may sign a request, by the key that is derived from their token."""
        owner = () if self._api_token is None else ((proof_key(self._api_token), OWNER),)
        others = ((proof_key(one.token), one) for one in self._proofs.trusted if one.token)
        return (*owner, *others)

    def _by_signature(self, asked: RequestInfo, said: bytes) -> "_Proof | Identity":
        """Return who signed the request, which counts once, and only if it was sent to us."""
        proof = RequestProof.parse(said.decode("latin-1"))
        if proof is None:
            found = "Sign the request with this nonce" if not said else "It is not a signature"
            return self._sign_again(found)
        host = b",".join(asked.values(b"host")).decode("latin-1")
        if_match = b",".join(asked.values(b"if-match")).decode("latin-1")
        parts = SignedParts(asked.method, host, asked.target, if_match)
        for key, who in self._keys:
            if not proof.made_with(key, parts):
                continue
            if isinstance(who, KnownProxy) and not who.at(asked.peer):
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
            answer = answer_proof(key, proof.signature)
            return _Proof(who, answer_proof=answer, digest=proof.digest)
        return self._unidentified()

    def _sign_again(self, found: str) -> Identity:
        nonce = self._nonces.give()
        return Identity(None, 401, found, {"WWW-Authenticate": f'{SCHEME} nonce="{nonce}"'})

    def _by_session(self, sessions: Sessions, said: bytes) -> "_Proof | Identity":
        session = sessions.read(said)
        if session is not None:
            return _Proof(OWNER, session=session)
        return Identity(
            None, 401, "The session has ended, or belongs to another cluster: sign in", _BEARER
        )

    async def _by_ticket(self, asked: RequestInfo, encoded: bytes) -> "_Proof | Identity":
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
        answer = f"Negotiate {base64.b64encode(accepted.answer).decode()}".strip()
        user = await people.short(accepted.principal) if people is not None else ""
        if not is_name(user):
            found = "The cluster's auth_to_local rules map your principal to no user"
            return Identity(None, 403, found, {"WWW-Authenticate": answer})
        for one in self._proofs.trusted:
            if one.by == "kerberos" and one.name == user and one.at(asked.peer):
                return _Proof(one, answer)
        return _Proof(Principal(user, await self._proofs.groups(user), "spnego"), answer)

    def _by_certificate(self, asked: RequestInfo) -> KnownProxy | None:
        if not asked.certificate:
            return None
        every = (one for one in self._proofs.trusted if one.by == "mtls")
        return next((o for o in every if o.name == asked.certificate and o.at(asked.peer)), None)

    async def _by_cookie(self, asked: RequestInfo) -> Principal | None:
        rule = self._proxy
        if rule is None or not rule.proves or asked.peer not in rule.addresses:
            return None
        user = cookie_user(asked, rule.cookie.encode())
        return (
            None if user is None else Principal(user, await self._proofs.groups(user), "rm-proxy")
        )

    async def _spoken_for(
        self, who: Principal | KnownProxy, asked: RequestInfo, claimed: Claims
    ) -> Identity:
        """Return whom *who* speaks for, which is nobody else unless it is a trusted proxy."""
        if isinstance(who, KnownProxy):
            return await self._named(who, claimed)
        if who.via == "rm-proxy":
            return Identity(who, named=who.user)
        if claimed.user is None or who.via == "none":
            return Identity(who)
        if who.via == "spnego":
            same = claimed.user == who.user.encode()
            found = f"{who.user} may not speak for others: only a trusted proxy names users"
            return Identity(who) if same else Identity(None, 403, found)
        # Besides the api token a name says nothing: it opens more than any name. But a proxy that
        # proved itself and names somebody must not be given that much on their behalf.
        if self._by_certificate(asked) is not None:
            return Identity(None, 400, "The api token and X-TARN-User came together: send one")
        return Identity(who)

    async def _named(self, proxy: KnownProxy, claimed: Claims) -> Identity:
        if claimed.user is None:
            return Identity(Principal(proxy.name, via="trusted-proxy"))
        if claimed.signed is not None:  # whoever passed the request on could have changed the name
            found = "The signature does not cover X-TARN-User: send the token itself, over HTTPS"
            return Identity(None, 400, found)
        user = claimed.user.decode("latin-1")
        if not is_name(user):
            found = (
                "X-TARN-User is not a valid user name: use at most 128 letters, digits and . _ "
                "@ $ + = -"
            )
            return Identity(None, 400, found)
        groups = await self._proofs.groups(user)
        if not proxy.speaks_for(user, groups):
            found = f"The trusted proxy {proxy.name} may not speak for this user"
            return Identity(None, 403, found)
        if user == ANONYMOUS.user:
            return Identity(ANONYMOUS, named=user)
        return Identity(Principal(user, groups, "proxy"), named=user)

    def _unidentified(self) -> Identity:
        """Refuse whoever proved nothing, in words for what was set up."""
        if self._proofs.tickets is None:
            found = "The api token is missing or wrong: send it in the header X-TARN-Token"
            return Identity(None, 401, found, _BEARER)
        found = "Send a Kerberos ticket (curl --negotiate -u :)"
        if self._reads_tokens:
            found += ", or the api token in the header X-TARN-Token"
        return Identity(None, 401, found, _NEGOTIATE)
