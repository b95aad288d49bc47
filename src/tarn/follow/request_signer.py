"""Authenticates requests: by the api token, or by Kerberos if the master asks for it."""

import base64
import binascii
import hmac
import json
import os
import re
import shlex
import threading
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import httpx

from tarn.errors import ConfigError, TarnError, UnreachableError
from tarn.plain.credentials import (
    ANSWER_HEADER,
    SCHEME,
    RequestProof,
    SignedParts,
    answer_proof,
    proof_key,
)

__all__ = ["KerberosTickets", "NoTicket", "Proof", "RequestSigner"]

_SPNEGO = "1.3.6.1.5.5.2"
NOT_INSTALLED = (
    "the module gssapi, which finds tickets, is not installed: "
    "pip install 'tarn-orchestrator[kerberos]'"
)


class NoTicket(TarnError):  # noqa: N818 (a state of affairs)
    """There is no Kerberos ticket."""


@attrs.define
class Proof:
    """The client's half of a mutual proof, for one request."""

    token: bytes = attrs.field(repr=False)
    _context: Any = attrs.field(repr=False)

    def confirmed(self, answer: bytes) -> bool:
        """Return whether *answer*, the server's half, proves that it has the server's key."""
        gssapi = _gssapi()
        try:
            self._context.step(answer)
            return bool(self._context.complete)
        except gssapi.exceptions.GSSError:
            return False


@attrs.frozen
class KerberosTickets:
    """Kerberos tickets: the user's own, or those of a keytab's principal. Any thread may use it.

    Tickets of a keytab are kept only in the memory of this process, and renewed by the library: no
    `kinit` is needed.
    """

    keytab: Path | None = None
    principal: str = ""
    """The principal in the keytab; empty for the first one."""
    _cache: str = attrs.field(init=False, repr=False, eq=False)

    @_cache.default
    def _own_cache(self) -> str:
        return f"MEMORY:tarn-{os.getpid()}-{id(self)}"

    @property
    def step(self) -> str:
        """What a person can do if there is no ticket."""
        if self.keytab is None:
            return "run `kinit`"
        return f"check it with `{shlex.join(['klist', '-kt', str(self.keytab)])}` and `kinit -kt`"

    def check(self) -> None:
        """Check the keytab, if there is one; asks the KDC.

        Raises:
            ConfigError: It cannot be read, has no such key, or the KDC refuses it.
        """
        if self.keytab is None:
            return
        where = f"--keytab {self.keytab}"
        try:
            with self.keytab.open("rb"):
                pass
        except OSError as error:
            raise ConfigError(
                f"the keytab cannot be read ({error.strerror})",
                code="TARN-3761",
                where=where,
                right="It must be readable by this user and nobody else, mode 0600.",
            ) from error
        try:
            self._credentials(_gssapi())
        except NoTicket as error:
            raise ConfigError(
                f"Kerberos gives no ticket for it: {error.found}",
                code="TARN-3765",
                where=where,
                next_step=f"{self.step[0].upper()}{self.step[1:]}.",
            ) from error

    def prove(self, host: str) -> Proof:
        """Return a proof for the web server on *host*; may ask the KDC.

        Raises:
            NoTicket: There is none.
        """
        gssapi = _gssapi()
        try:
            context = gssapi.SecurityContext(
                name=gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service),
                creds=self._credentials(gssapi),
                mech=gssapi.OID.from_int_seq(_SPNEGO),
                flags=[gssapi.RequirementFlag.mutual_authentication],
                usage="initiate",
            )
            token = context.step()
        except gssapi.exceptions.GSSError as error:
            raise NoTicket(_words(error)) from error
        if not token:
            raise NoTicket("Kerberos gave nothing to send")
        return Proof(token, context)

    def _credentials(self, gssapi: ModuleType) -> Any:
        """Return the credentials of the keytab; None for the user's own cache."""
        if self.keytab is None:
            return None
        kinds = gssapi.NameType
        name = gssapi.Name(self.principal, kinds.kerberos_principal) if self.principal else None
        try:
            return gssapi.Credentials(
                name=name,
                usage="initiate",
                store={"client_keytab": f"FILE:{self.keytab}", "ccache": self._cache},
            )
        except gssapi.exceptions.GSSError as error:
            raise NoTicket(_words(error)) from error


def _gssapi() -> ModuleType:
    """Import gssapi.

    Raises:
        NoTicket: It is not installed, or Kerberos's own library is not.
    """
    try:
        import gssapi  # noqa: PLC0415 (an extra, which takes 40 ms to import)
        import gssapi.exceptions  # noqa: PLC0415
    except (ImportError, OSError) as error:
        raise NoTicket(f"{NOT_INSTALLED} ({error})") from error
    module: ModuleType = gssapi
    return module


def _words(error: Exception) -> str:
    # The library's text names services and files, and never keys.
    said = " ".join(str(error).split())
    minor = said.rpartition("Minor code")[2]
    return (minor.partition(":")[2].strip() if minor and minor != said else said)[:300]


_NEGOTIATE = "negotiate"
_NONCE = re.compile(rf'{SCHEME} nonce="([A-Za-z0-9_-]{{1,128}})"', re.IGNORECASE)
WANTS_TLS = "TARN-3728"
TOO_MANY_REQUESTS = httpx.codes.TOO_MANY_REQUESTS
# What a master may answer before it authenticates a request, and so without a proof of itself.
_BEFORE_WHO = frozenset({400, 401, 414, 421, TOO_MANY_REQUESTS, 431})
# The route for getting a nonce: its challenge needs no right.
_HELLO = "/api/v1/me"


class RequestSigner(httpx.Auth):
    """Mutual authentication with a master, by the api token or a Kerberos ticket. Thread-safe.

    The api token is sent only over HTTPS, to a master with a trusted certificate. Over plain HTTP
    both sides prove by signatures that they have it (`tarn.plain.credentials`), which takes one
    more round trip for each client, not for each request.

    Without a token, a master that answers 401 with ``Negotiate`` gets a proof for its host (SPNEGO,
    RFC 4559), over plain HTTP too, as in Hadoop: a proof is valid for this server, once. Later
    requests have a proof at once, which saves a round trip. A proof is sent only to the host of the
    URL, and the answer must prove that host.

    Args:
        url: The master's base URL.
        api_token: None if there is none.
        tickets: The Kerberos tickets to use without an api token.
    """

    requires_request_body = True

    def __init__(self, url: str, api_token: str | None, tickets: KerberosTickets) -> None:
        self._url, self._api_token, self._tickets = url, api_token, tickets
        self._host = _host(url)
        self._key = b"" if api_token is None else proof_key(api_token.encode())
        self._lock = threading.Lock()
        self._nonce, self._count = "", 0
        # Set once the master has asked for a ticket.
        self._asked = threading.Event()
        # Why the last request had no ticket although one was wanted; else empty.
        self.lack = ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send *request* with a proof, a second time if the master asks for one first.

        Raises:
            UnreachableError: The server did not prove to be the master (TARN-3703, TARN-3768).
        """
        if self._api_token and request.url.scheme == "https":
            request.headers["X-TARN-Token"] = self._api_token
            yield request
            return
        if self._api_token:
            yield from self._signed(request)
            return
        # With the cookie of Hadoop's proxy no ticket is needed while it is valid.
        at_once = self._asked.is_set() and "cookie" not in request.headers
        proof = self._add(request) if at_once else None
        response = yield request
        if proof is None and _wants_proof(response):
            self._asked.set()
            proof = self._add(request)
            if proof is None:
                return  # the 401 is the result, and `lack` says why
            response = yield request
        if proof is not None and response.is_success:  # a forged refusal would deceive nobody
            self._confirm(proof, response)

    def _signed(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send *request* signed, a second time if the master does not know the nonce."""
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
        """Use the nonce in *response*; return whether there is one."""
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
        """Return the error for a server that gave no nonce.

        Nothing in its answer is trusted, except that it may be overloaded or want HTTPS.
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
        """Return the error for a server without the token; *asks*: it wants a proof."""
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
    """Return whether a master sends *response* only after authentication."""
    return not response.is_server_error and response.status_code not in _BEFORE_WHO


def _host(url: str) -> str:
    try:
        return httpx.URL(url).host
    except (httpx.InvalidURL, TypeError):
        return ""  # sending a request raises an error about it


def _wants_proof(response: httpx.Response) -> bool:
    return response.status_code == httpx.codes.UNAUTHORIZED and any(
        value.split(" ", 1)[0].lower() == _NEGOTIATE for value in _challenges(response)
    )


def _answered(response: httpx.Response) -> bytes | None:
    """Return the server's half of the proof; None if it is missing or not valid."""
    for value in _challenges(response):
        scheme, _, words = value.partition(" ")
        if scheme.lower() == _NEGOTIATE and words:
            try:
                return base64.b64decode(words.strip(), validate=True)
            except (ValueError, binascii.Error):
                return None
    return None


def _challenges(response: httpx.Response) -> list[str]:
    """Return each challenge; one header may have several."""
    return [
        part.strip()
        for value in response.headers.get_list("www-authenticate")
        for part in value.split(",")
    ]
