"""How each request says who asks: by the api token, else by Kerberos where the master wants it."""

import base64
import binascii
import hmac
import json
import re
import threading
from collections.abc import Generator

import httpx

from tarn.domain.request_proof import (
    ANSWER_HEADER,
    SCHEME,
    RequestProof,
    SignedParts,
    answer_proof,
    proof_key,
)
from tarn.errors import UnreachableError
from tarn.follow.tickets import KerberosTickets, NoTicket, Proof

__all__ = ["RequestSigner"]

_NEGOTIATE = "negotiate"
_NONCE = re.compile(rf'{SCHEME} nonce="([A-Za-z0-9_-]{{1,128}})"', re.IGNORECASE)
WANTS_TLS = "TARN-3728"
TOO_MANY_REQUESTS = httpx.codes.TOO_MANY_REQUESTS
_BEFORE_WHO = frozenset({400, 401, 414, 421, TOO_MANY_REQUESTS, 431})
"""What a master may answer before it looks at who asks."""
_HELLO = "/api/v1/me"
"""A route where everybody learns what proves who asks."""


class RequestSigner(httpx.Auth):
    """Proves to the master who asks, and to the client who answers: by the api token, or a ticket.

    The api token is sent only over HTTPS, to a master that its certificate has proven. Over plain
    HTTP both sides prove by signatures that they hold it (`tarn.domain.request_proof`): that takes
    one more round for each client, not for each request.

    Without a token, a master that answers 401 and names ``Negotiate`` gets a proof for its host
    (SPNEGO, RFC 4559), and from then on each request brings one at once, which saves a second
    round. As in Hadoop, this is done over plain HTTP, too: what is sent is good for this server,
    once. A proof goes to the host of the URL and nowhere else, and who answers it must prove to be
    that host. Thread-safe.

    Args:
        url: The master's.
        api_token: None: there is none.
        tickets: Whose.
    """

    requires_request_body = True

    def __init__(self, url: str, api_token: str | None, tickets: KerberosTickets) -> None:
        self._url, self._api_token, self._tickets = url, api_token, tickets
        self._host = _host(url)
        self._key = b"" if api_token is None else proof_key(api_token.encode())
        self._lock = threading.Lock()
        self._nonce, self._count = "", 0
        self._asked = threading.Event()
        """Set once the master wanted a proof."""
        self.lack = ""
        """Why the last request that was to bring a proof brought none; empty: it did, or none was
        wanted."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send *request* with what proves who asks; a second time where that was wanted first.

        Raises:
            UnreachableError: TARN-3703, TARN-3768: whoever answers did not prove to be the master.
        """
        if self._api_token and request.url.scheme == "https":
            request.headers["X-TARN-Token"] = self._api_token
            yield request
            return
        if self._api_token:
            yield from self._signed(request)
            return
        # who was let in by a cookie (Hadoop's proxy) needs no other proof while that holds
        at_once = self._asked.is_set() and "cookie" not in request.headers
        proof = self._add(request) if at_once else None
        response = yield request
        if proof is None and _wants_proof(response):
            self._asked.set()
            proof = self._add(request)
            if proof is None:
                return  # the answer stands, and `lack` says more
            response = yield request
        if proof is not None and response.is_success:  # a refusal is nothing to be deceived by
            self._confirm(proof, response)

    def _signed(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send *request* signed; once more where the master does not know our nonce any more."""
        if not self._nonce:
            url = f"{self._url}{_HELLO}"
            headers = {"Authorization": SCHEME}
            response = yield httpx.Request(
                "GET", url, headers=headers, extensions=request.extensions
            )
            if not self._begin(response):
                raise self._unproven(response)
        proof = self._sign(request)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and self._begin(response):
            proof = self._sign(request)  # another master took over
            response = yield request
        expected = answer_proof(self._key, proof.signature)
        said = response.headers.get(ANSWER_HEADER, "")
        if _says_something(response) and not hmac.compare_digest(said.encode(), expected.encode()):
            self._nonce = ""
            raise self._stranger(asks=True)

    def _begin(self, response: httpx.Response) -> bool:
        """Take up the nonce that *response* brings; say whether it brings one."""
        challenges = response.headers.get_list("www-authenticate")
        found = next(filter(None, map(_NONCE.search, challenges)), None)
        if response.status_code != httpx.codes.UNAUTHORIZED or found is None:
            return False
        with self._lock:
            self._nonce, self._count = found[1], 0
        return True

    def _sign(self, request: httpx.Request) -> RequestProof:
        with self._lock:
            self._count += 1
            nonce, count = self._nonce, self._count
        parts = SignedParts(
            request.method,
            request.headers["host"],
            request.url.raw_path.decode("ascii"),
            request.headers.get("if-match", ""),
        )
        proof = RequestProof.of(self._key, nonce, count, request.content, parts)
        request.headers["Authorization"] = f"{SCHEME} {proof}"
        return proof

    def _unproven(self, response: httpx.Response) -> UnreachableError:
        """Return what to say of who was asked for a nonce, and gave none.

        Nothing of what it says is believed, but that another one may be asked.
        """
        if response.is_server_error or response.status_code == TOO_MANY_REQUESTS:
            return UnreachableError(
                f"answered {response.status_code} before it proved that it is the master",
                where=self._url,
                next_step="It may be overloaded: try again in a moment",
            )
        if response.status_code == httpx.codes.BAD_REQUEST and _wants_tls(response):
            right = self._url.replace("http:", "https:", 1)
            return UnreachableError(
                "this port speaks HTTPS only",
                code=WANTS_TLS,
                where=self._url,
                right=f"Expected {right}.",
            )
        return self._stranger(asks=not response.is_success)

    def _stranger(self, *, asks: bool) -> UnreachableError:
        """Return what to say of who answers and does not hold the token; *asks*: for a proof."""
        step = (
            "Another program may have taken the port of a master that ended; `ss -ltnp` on that "
            "machine shows whose it is. A master of an older TARN cannot prove its identity: "
            "use the TARN that started it"
        )
        if not asks:
            step = f"{step}. For a master without a token (api.token: none), leave the token out"
        return UnreachableError(
            "the program that answers there did not prove that it is the cluster's master, so "
            "the api token was not sent",
            code="TARN-3703",
            where=self._url,
            next_step=step,
        )

    def _add(self, request: httpx.Request) -> Proof | None:
        if request.url.host != self._host or not self._host:
            return None
        try:
            proof = self._tickets.prove(self._host)
        except NoTicket as error:
            self.lack = error.found
            return None
        self.lack = ""
        words = base64.b64encode(proof.token).decode("ascii")
        request.headers["Authorization"] = f"Negotiate {words}"
        return proof

    def _confirm(self, proof: Proof, response: httpx.Response) -> None:
        answer = _answered(response)
        if answer is None or not proof.confirmed(answer):
            raise UnreachableError(
                f"answered, but did not prove that it holds the key of HTTP/{self._host}",
                code="TARN-3768",
                where=self._url,
                next_step="Another program may answer there; or the master's keytab lacks this "
                "host; or a proxy removes `WWW-Authenticate` from answers.",
            )


def _wants_tls(response: httpx.Response) -> bool:
    try:
        said = json.loads(response.read())
        return bool(said["error"]["code"] == WANTS_TLS)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _says_something(response: httpx.Response) -> bool:
    """Say whether *response* is one that a master gives to those whom it knows."""
    return not response.is_server_error and response.status_code not in _BEFORE_WHO


def _host(url: str) -> str:
    try:
        return httpx.URL(url).host
    except (httpx.InvalidURL, TypeError):
        return ""  # whoever sends something there says so


def _wants_proof(response: httpx.Response) -> bool:
    return response.status_code == httpx.codes.UNAUTHORIZED and any(
        value.split(" ", 1)[0].lower() == _NEGOTIATE for value in _challenges(response)
    )


def _answered(response: httpx.Response) -> bytes | None:
    """Return the other half of the proof; None: there is none, or it cannot be read."""
    for value in _challenges(response):
        scheme, _, words = value.partition(" ")
        if scheme.lower() == _NEGOTIATE and words:
            try:
                return base64.b64decode(words.strip(), validate=True)
            except (ValueError, binascii.Error):
                return None
    return None


def _challenges(response: httpx.Response) -> list[str]:
    """Return each challenge, however many stand in one header."""
    return [
        part.strip()
        for value in response.headers.get_list("www-authenticate")
        for part in value.split(",")
    ]
