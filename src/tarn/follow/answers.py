"""Reads a master's answers, JSON or server-sent events, and translates errors."""

import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx

from tarn.descriptors import shortage
from tarn.errors import (
    ConfigError,
    ConflictError,
    NotAuthorizedError,
    NotFoundError,
    ProviderError,
    RefusedError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.tls.contexts import Trust, hosts

__all__ = [
    "DISTRUST",
    "EVENT_STREAM",
    "MOST_BYTES",
    "NOBODY_LISTENS",
    "Json",
    "Message",
    "bound",
    "distrusted",
    "dropped",
    "good_answer",
    "messages",
    "translated",
]

# Of one answer. The status of 2,000 instances takes 2 MiB, and their metrics some more.
MOST_BYTES = 64 * 2**20
EVENT_STREAM = "text/event-stream"
# The code of a refused connection: no program has the port.
NOBODY_LISTENS = "TARN-4013"


def bound(response: httpx.Response) -> None:
    """Limit the body of *response*, or each message of a stream of events, to `MOST_BYTES`.

    Raises:
        UnreachableError: The body is compressed.
    """
    # Few compressed bytes can become many; a master never compresses, and is not asked to.
    where = str(response.request.url)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnreachableError("the answer is compressed; a master's never is", where=where)
    asked = response.request.headers.get("accept")
    streams = asked == EVENT_STREAM and response.status_code == httpx.codes.OK
    assert isinstance(response.stream, httpx.SyncByteStream)
    response.stream = _Bounded(response.stream, where, b"\n\n" if streams else None)


class _Bounded(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream, where: str, end: bytes | None) -> None:
        self._inner, self._where, self._end = inner, where, end

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._inner:
            size += len(part)
            if size > MOST_BYTES:
                found = f"the answer is longer than {MOST_BYTES >> 20} MiB; a master's never is"
                raise UnreachableError(found, where=self._where)
            yield part
            if self._end is not None and self._end in part:
                size = 0

    def close(self) -> None:
        self._inner.close()


Json = dict[str, Any]


@attrs.frozen
class Message:
    """One message of a stream. After the event ``reset`` everything is sent again."""

    id: str
    """Where to continue after this message; empty if the stream cannot continue here."""
    event: str
    data: Json = attrs.field(hash=False)


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """Yield the server-sent events in *lines*; comments and unknown fields are skipped.

    Raises:
        UnreachableError: The data of a message is not JSON.
    """
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            held = fields.get(name)
            joined = f"{held}\n{value}" if name == "data" and held is not None else value
            fields[name] = joined
        elif "data" in fields:
            try:
                data = json.loads(fields["data"])
            except (ValueError, RecursionError) as error:
                raise UnreachableError("a message of the stream is not JSON") from error
            yield Message(fields.get("id", ""), fields.get("event", "message"), data)
            fields = {}


def good_answer(response: httpx.Response, url: str) -> Json:
    """Return the JSON object of a good answer; raise the error of a bad one."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    if response.is_success and isinstance(body, dict):
        return body
    said = body.get("error") if isinstance(body, dict) else None
    if not isinstance(said, dict):
        found = f"answered {response.status_code}, but not as a master does"
        raise UnreachableError(found, where=url, next_step="`tarn status` shows where one listens.")
    raise _error(response, said, url)


def _error(response: httpx.Response, said: Json, url: str) -> TarnError:
    """Return the error in a master's answer."""
    found, next_step = str(said.get("found", "")), str(said.get("next_step", ""))
    parts = {
        "code": str(said.get("code", "")),
        "where": str(said.get("where", "")),
        "right": str(said.get("right", "")),
        "next_step": next_step,
    }
    match response.status_code:
        case 401 | 403:
            principal, action = str(said.get("principal", "")), str(said.get("action", ""))
            why = next_step or str(said.get("reason", ""))
            offers = response.headers.get("WWW-Authenticate", "").lower()
            return NotAuthorizedError(
                principal,
                action,
                str(said.get("model", "")),
                next_step=why,
                negotiates=offers.startswith("negotiate"),
            )
        case 421:
            return UnreachableError(found, **parts)
        case 412:
            revision = int(said.get("spec_revision") or 0)
            return ConflictError(found, spec_revision=revision, next_step=next_step)
        case 503 if parts["code"] != TimedOutError.default_code:
            retry_after = response.headers.get("Retry-After", "")
            retry_s = float(retry_after) if retry_after.isdigit() else None
            parts["where"] = parts["where"] or url
            return ProviderError("master", found, retry_after_s=retry_s, **parts)
        case status:
            return _KINDS.get(status, TarnError)(found, **parts)


_KINDS: dict[int, Callable[..., TarnError]] = {
    400: ConfigError,
    404: NotFoundError,
    408: TimedOutError,
    409: RefusedError,
    413: ConfigError,
    415: ConfigError,
    503: TimedOutError,
}


# Codes of answers from a program that did not prove to be the master.
DISTRUST = frozenset({"TARN-3703", "TARN-3723", "TARN-3727", "TARN-3728", "TARN-3729"})
_LOOK_WITHIN_S = 2.0
# ``X509_V_ERR_HOSTNAME_MISMATCH``, ``_EMAIL_``, ``_IP_ADDRESS_``.
_OTHER_HOST = frozenset({62, 63, 64})
# ``X509_V_ERR_CERT_NOT_YET_VALID``, ``X509_V_ERR_CERT_HAS_EXPIRED``.
_OUT_OF_TIME = frozenset({9, 10})


def distrusted(error: BaseException, url: str, trust: Trust) -> UnreachableError | None:
    """Return the error for a failed connection; None if *error* is not an error of TLS."""
    cause = next(_of_tls(error), None)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _not_trusted(cause, url, trust)
    reason = str(cause.reason or "")
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return _handshake_failed(
            "speaks no TLS", url, "Ask it by http://, or start it with api.tls"
        )
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return _certificate_refused(
            f"the master refuses the client's certificate ({_words(reason)})", url
        )
    return _handshake_failed(
        f"the TLS handshake failed: {_words(reason) or cause}",
        url,
        "The log of the master says why",
    )


def dropped(url: str) -> UnreachableError:
    """Return the error for a client certificate whose connection the master closed."""
    # A master that does not trust it sends an alert, but that does not always arrive.
    return _certificate_refused(
        "it closed the connection without an answer; perhaps it refuses the client's certificate",
        url,
    )


def _certificate_refused(found: str, url: str) -> UnreachableError:
    return UnreachableError(
        found,
        code="TARN-3729",
        where=url,
        right="api.tls.client_ca of the cluster must list the authority that signed it, for "
        "client use.",
        next_step="Give the right certificate, or none; the log of the master says why.",
    )


def _not_trusted(error: ssl.SSLCertVerificationError, url: str, trust: Trust) -> UnreachableError:
    if error.verify_code in _OTHER_HOST:
        host, named = urlsplit(url).hostname or "", _named(url, trust)
        return UnreachableError(
            f"its certificate is not for '{host}'; it names {', '.join(named) or 'no host at all'}",
            code="TARN-3727",
            where=url,
            right="It must name every host where a master may run: each by a subject alternative "
            "name, or all by a wildcard.",
            next_step="Get such a certificate, and start the cluster again with it.",
        )
    if error.verify_code in _OUT_OF_TIME:
        return _handshake_failed(
            f"its certificate has expired or is not valid yet ({error.verify_message})",
            url,
            "Check the clocks; if they are right, start the cluster again with a new certificate",
            "TARN-3723",
        )
    by = f"the file {trust.ca}" if trust.ca else "the authorities of this system"
    return _handshake_failed(
        f"its certificate is not trusted by {by} ({error.verify_message})",
        url,
        "Name the file with its authority, with --ca where the command has it; `tarn up` keeps "
        "one as tls_ca.pem in the cluster's directory",
    )


def _named(url: str, trust: Trust) -> tuple[str, ...]:
    """Connect again to read the names in the certificate; none if that fails."""
    place = urlsplit(url)
    try:
        context = trust.context()
        context.check_hostname = False
        at = (place.hostname or "", place.port or 443)
        with (
            socket.create_connection(at, _LOOK_WITHIN_S) as line,
            context.wrap_socket(line, server_hostname=place.hostname) as secured,
        ):
            return hosts(secured.getpeercert() or {})
    except OSError:
        return ()


def _of_tls(error: BaseException | None) -> Iterator[ssl.SSLError]:
    """Yield the TLS errors among the causes of *error*, the nearest first."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            yield error
        error = error.__cause__ or error.__context__


def _handshake_failed(found: str, url: str, step: str, code: str = "TARN-3728") -> UnreachableError:
    return UnreachableError(found, code=code, where=url, next_step=step)


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


@contextlib.contextmanager
def translated(url: str, trust: Trust) -> Iterator[None]:
    """Translate every error of the HTTP library into one of ours."""
    try:
        yield
    except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise UnreachableError("no connection within the time limit", where=url) from error
    except httpx.TimeoutException as error:
        raise TimedOutError("no answer within the time limit", where=url) from error
    except httpx.UnsupportedProtocol as error:
        right = "Expected http://HOST:PORT, or https."
        raise ConfigError("is not the URL of a master", where=url, right=right) from error
    except httpx.TransportError as error:
        raise _unreachable(error, url, trust) from error
    except httpx.InvalidURL as error:
        raise UnreachableError(f"is not a URL: {error}", where=url) from error


def _unreachable(error: httpx.TransportError, url: str, trust: Trust) -> UnreachableError:
    if (distrust := distrusted(error, url, trust)) is not None:
        return distrust
    if trust.cert is not None and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return dropped(url)
    if _nobody_listens(error):
        step = "If its master has ended, another one is started: ask again in a few seconds"
        return UnreachableError(
            "nobody listens there", code=NOBODY_LISTENS, where=url, next_step=step
        )
    lack = shortage(error)
    return UnreachableError(
        f"no request was sent: {lack}" if lack else f"no answer: {error}", where=url
    )


def _nobody_listens(error: BaseException | None) -> bool:
    """Return whether a refused connection is among the causes of *error*."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None
