"""How each request says who asks: by the api token, else by Kerberos where the master wants it."""

import base64
import binascii
import threading
from collections.abc import Generator

import httpx

from tarn.errors import UnreachableError
from tarn.follow.tickets import NoTicket, Proof, Tickets

__all__ = ["Proving"]

_NEGOTIATE = "negotiate"


class Proving(httpx.Auth):
    """Adds the api token to each request, so that no client's headers hold it; or a ticket.

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

    def __init__(self, url: str, api_token: str | None, tickets: Tickets) -> None:
        self._url, self._api_token, self._tickets = url, api_token, tickets
        self._host = _host(url)
        self._asked = threading.Event()
        """Set once the master wanted a proof."""
        self.lack = ""
        """Why the last request that was to bring a proof brought none; empty: it did, or none was
        wanted."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send *request* with what proves who asks; a second time where that was wanted first.

        Raises:
            UnreachableError: TARN-3768: who took the proof gave none.
        """
        if self._api_token:
            request.headers["X-TARN-Token"] = self._api_token
            yield request
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
                f"answered, and did not prove to hold the key of HTTP/{self._host}",
                code="TARN-3768",
                where=self._url,
                next_step="Somebody else may answer there. Else the master's keytab lacks this "
                "host, or a proxy takes `WWW-Authenticate` out of answers.",
            )


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
