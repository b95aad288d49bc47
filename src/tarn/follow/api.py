"""The client of a master's HTTP API: ask, command, and follow its streams.

Masters are never reached through a proxy variable, and the api token stands in no ``repr``, no
URL and no error.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import httpx

from tarn.descriptors import shortage
from tarn.domain import Applied
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
from tarn.follow.bodies import EVENT_STREAM, bound
from tarn.follow.everywhere import FleetCall
from tarn.follow.messages import Json, Message, messages
from tarn.follow.request_signer import RequestSigner
from tarn.follow.tickets import KerberosTickets
from tarn.follow.trust import Trust, distrusted, dropped

__all__ = ["NOBODY_LISTENS", "MasterApi", "Message"]

NOBODY_LISTENS = "TARN-4013"
"""Code of what a machine says at once of a port that no program holds."""
CONNECT_WITHIN_S = 2.0
SILENT_FOR_S = 25.0
"""A stream says something each 10 s; silent for longer than two of these, it is lost."""
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 5.0


class MasterApi:
    """One master's API. Thread-safe but for ``close``.

    Args:
        url: Base URL, like ``http://127.0.0.1:40001``.
        api_token: None where the master asks for none.
        timeout_s: For each request as a whole to make progress; streams have their own.
        trust: By what a master at an https URL is known; its files are read here.
        tickets: What proves who asks where there is no api token and the master takes Kerberos;
            None: the user's own.

    Raises:
        ConfigError: A file of *trust* cannot be read or used.
    """

    def __init__(
        self,
        url: str,
        api_token: str | None,
        *,
        timeout_s: float = 5.0,
        trust: Trust | None = None,
        tickets: KerberosTickets | None = None,
    ) -> None:
        self.url, self._trust = url.rstrip("/"), trust or Trust()
        self._tickets = tickets or KerberosTickets()
        self._proving = RequestSigner(self.url, api_token, self._tickets)
        connect_s = min(CONNECT_WITHIN_S, timeout_s)
        self._client = httpx.Client(
            auth=self._proving,
            timeout=httpx.Timeout(timeout_s, connect=connect_s),
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [bound]},
            # Loading the certificates takes 20 ms, which a plain URL need not pay.
            verify=self._trust.context() if self.url.startswith("https:") else False,
        )

    def __repr__(self) -> str:
        return f"MasterApi({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def lack(self) -> str:
        """Why no Kerberos ticket was shown to a master that wants one; empty: it does not."""
        return self._proving.lack

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def status(self) -> Json:
        """Return what the master knows, in the shape of ``GET /api/v1/status``."""
        return self.get("/api/v1/status")

    def cluster(self) -> str:
        """Return the name of the cluster whose master answers."""
        return str(self.status().get("name"))

    def instances(self) -> Json:
        """Return every instance that is alive, ``in_view`` marked."""
        return self.get("/api/v1/instances")

    def events(self) -> list[Json]:
        """Return the events that the master keeps, oldest first."""
        return list(self.get("/api/v1/events")["events"])

    def decisions(self) -> list[Json]:
        """Return the decisions that the master keeps, oldest first."""
        return list(self.get("/api/v1/decisions")["decisions"])

    def scaling(self) -> Json:
        """Return what the size is and why, what comes next, and by which signals."""
        return self.get("/api/v1/scaling")

    def get(self, path: str) -> Json:
        """Return the JSON object at *path*.

        Raises:
            TarnError: ``NotAuthorizedError``, ``NotFoundError``, ``UnreachableError``,
                ``TimedOutError`` or another of the tree, by what the master answered.
        """
        return self._ask("GET", path)

    def text(self, path: str) -> str:
        """Return the text at *path*, such as ``/metrics``; raises as `get` does."""
        with _translated(self.url, self._trust):
            response = self._client.get(
                f"{self.url}/{path.lstrip('/')}", headers={"Accept": "text/plain"}
            )
        if not response.is_success:
            self._answered(response)
        return response.text

    def scale(self, replicas: int | None, if_match: int | None = None) -> Json:
        """Set a manual size; None gives it back to the policy.

        Raises:
            RefusedError: Outside of min and max, which the error names.
            ConflictError: *if_match* is not the present spec revision.
        """
        return self._put("scale", {"replicas": replicas}, if_match)

    def adapt(
        self,
        min: int | None = None,  # noqa: A002 (named as in the spec)
        max: int | None = None,  # noqa: A002
        if_match: int | None = None,
    ) -> Json:
        """Give the size to the policy, between these bounds; None keeps a bound."""
        return self._put("adapt", {"min": min, "max": max}, if_match)

    def pause(self, for_s: float, reason: str = "", if_match: int | None = None) -> Json:
        """Stop scaling decisions for *for_s* seconds."""
        return self._put("pause", {"for": for_s, "reason": reason}, if_match)

    def resume(self, if_match: int | None = None) -> Json:
        """End a pause, thaw replacements, launch again after a halt."""
        return self._put("resume", {}, if_match)

    def drain(self, instance_id: str, if_match: int | None = None, *, now: bool = False) -> Json:
        """Replace one instance, then withdraw and drain it; *now*: withdraw it at once."""
        body = {"instance": instance_id, **({"now": True} if now else {})}
        return self._put("drain", body, if_match)

    def down(self, if_match: int | None = None) -> Json:
        """End the cluster."""
        return self._put("down", {}, if_match)

    def control(self, call: int | None = None) -> Json:
        """Return the control calls that are wanted, and who has had each; *call*: only that one."""
        return self.get("/api/v1/control" + ("" if call is None else f"?call={call}"))

    def call_all(self, call: FleetCall, if_match: int | None = None) -> Json:
        """Send *call* to every instance there is and will be; ``call`` in the answer numbers it.

        Raises:
            RefusedError: Their Tritons take no such calls, or too many are kept.
        """
        return self._put(call.verb, {**call.body, "request": call.request}, if_match)

    def acknowledge(self, applied: Applied, lease_s: float = 15.0) -> Json:
        """Say what this follower applied; this is valid for *lease_s*."""
        body = {
            "epoch": str(applied.epoch),
            "revision": applied.revision,
            "at": applied.at,
            "error": applied.error,
            "sessions": dict(applied.sessions),
            "lease": lease_s,
        }
        return self._put(f"followers/{applied.name}", body, None)

    def demand(
        self,
        source: str,
        waiting: int,
        refused: int = 0,
        failures: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Json:
        """Say that *waiting* requests are held at *source* because there is no instance.

        Said again each second or so while they are: a master forgets it after ten. It wakes a
        cluster that sleeps, within its limits, unless a person set its size to 0. *refused* ones
        (since it was said last) wake it, too, and count as none that waits.

        *failures* are bad answers by instance id and model, since it was said last, that the
        caller did not cause. The master takes them as a hint: it sends its own test request. They
        start no instance; a master older than this refuses them.
        """
        body: dict[str, object] = {"from": source, "waiting": waiting}
        if refused:
            body["refused"] = refused
        if failures:
            body["failures"] = {id_: dict(models) for id_, models in failures.items()}
        return self._put("demand", body, None)

    def link(self) -> Json:
        """Return a ``code`` with which a browser signs in once, within ``expires_in_s``.

        Raises:
            NotAuthorizedError: We hold no api token.
            RefusedError: The master asks for none.
        """
        return self._put("session/link", {}, None)

    def stream(
        self,
        path: str = "events",
        last_id: str | None = None,
        stop: threading.Event | None = None,
        *,
        give_up_s: float = 60.0,
    ) -> Iterator[Message]:
        """Yield messages as they come; reconnect with back-off, and go on where it broke.

        Args:
            path: ``events``, ``decisions``, or ``stream`` for the view and the status.
            last_id: ``Message.id`` to go on after; None begins with everything that is kept.
            stop: Set it, from any thread, to end the iteration within a quarter of a second.
            give_up_s: Without a message for this long, ``UnreachableError`` is raised.
        """
        stop = stop or threading.Event()
        lost_s, back_off_s = 0.0, FIRST_BACK_OFF_S
        while not stop.is_set():
            try:
                for message in self._connected(path, last_id, stop):
                    lost_s, back_off_s = 0.0, FIRST_BACK_OFF_S
                    last_id = message.id or last_id
                    yield message
            except (UnreachableError, TimedOutError, ProviderError):
                if lost_s >= give_up_s and not stop.is_set():
                    raise
            stop.wait(back_off_s)
            lost_s += back_off_s
            back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)

    def _put(self, verb: str, body: Mapping[str, object], if_match: int | None) -> Json:
        headers = {} if if_match is None else {"If-Match": f'"{if_match}"'}
        return self._ask("PUT", f"/api/v1/{verb}", headers=headers, json=body)

    def _ask(self, method: str, path: str, **arguments: Any) -> Json:
        headers = {"Accept": "application/json", **arguments.pop("headers", {})}
        with _translated(self.url, self._trust):
            url = f"{self.url}/{path.lstrip('/')}"
            response = self._client.request(method, url, headers=headers, **arguments)
        return self._answered(response)

    def _answered(self, response: httpx.Response) -> Json:
        """Return the JSON object of a good answer; raise what a bad one says, and what we lack."""
        try:
            return _answer(response, self.url)
        except NotAuthorizedError as error:
            if not self.lack:
                raise
            step = (
                f"This master takes Kerberos tickets, and there is none here ({self.lack}): "
                f"{self._tickets.step}. {error.next_step}"
            )
            raise NotAuthorizedError(
                error.principal, error.action, error.model, next_step=step.strip()
            ) from error

    def _connected(
        self, path: str, last_id: str | None, stop: threading.Event
    ) -> Iterator[Message]:
        """Yield what one connection brings; one that brings nothing is as good as none."""
        headers, heard = {"Accept": EVENT_STREAM, "Cache-Control": "no-store"}, False
        if last_id:
            headers["Last-Event-ID"] = last_id
        url = f"{self.url}/api/v1/{path.lstrip('/')}"
        timeout = httpx.Timeout(SILENT_FOR_S, connect=CONNECT_WITHIN_S)
        with (
            _translated(self.url, self._trust),
            self._client.stream("GET", url, headers=headers, timeout=timeout) as response,
        ):
            if response.status_code != httpx.codes.OK:
                response.read()
                self._answered(response)
            with _cut_by(stop, response):
                for message in messages(response.iter_lines()):
                    heard = True
                    yield message
        if not heard and not stop.is_set():
            raise UnreachableError("its stream ended without a message", where=self.url)


@contextlib.contextmanager
def _translated(url: str, trust: Trust) -> Iterator[None]:
    """Turn every error of the HTTP library into one of ours."""
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
    """Return what to say of a connection that did not come about, or broke."""
    if (distrust := distrusted(error, url, trust)) is not None:
        return distrust
    if trust.cert is not None and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return dropped(url)
    if _refused(error):
        step = "If its master has ended, another one is started: ask again in a few seconds"
        return UnreachableError(
            "nobody listens there", code=NOBODY_LISTENS, where=url, next_step=step
        )
    lack = shortage(error)
    return UnreachableError(
        f"no request was sent: {lack}" if lack else f"no answer: {error}", where=url
    )


def _refused(error: BaseException | None) -> bool:
    """Say whether *error* comes of a port at which nobody listens."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def _answer(response: httpx.Response, url: str) -> Json:
    """Return the JSON object of a good answer; raise what a bad one says."""
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
    """Return the error that a master's answer stands for."""
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
            return NotAuthorizedError(principal, action, str(said.get("model", "")), next_step=why)
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


@contextlib.contextmanager
def _cut_by(stop: threading.Event, response: httpx.Response) -> Iterator[None]:
    """End a blocked read of *response* soon after *stop* is set."""
    over = threading.Event()
    stream = response.extensions["network_stream"]

    def watch() -> None:
        while not over.is_set():
            if stop.wait(0.2):
                with contextlib.suppress(OSError):
                    stream.get_extra_info("socket").shutdown(2)
                return

    watcher = threading.Thread(target=watch, name="stream-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(timeout=1.0)
