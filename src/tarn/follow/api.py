"""The client of a master's HTTP API: queries, commands and streams.

Proxy variables of the environment are ignored, and no ``repr``, URL or error contains the api
token.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import httpx

from tarn.domain import Applied
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    ProviderError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow.answers import (
    EVENT_STREAM,
    Json,
    Message,
    bound,
    good_answer,
    messages,
    translated,
)
from tarn.follow.everywhere import FleetCall
from tarn.follow.request_signer import KerberosTickets, RequestSigner
from tarn.tls.contexts import Trust

__all__ = ["MasterApi"]

CONNECT_WITHIN_S = 2.0
# A stream has a message or a comment every 10 s; after more than two of these, it is lost.
SILENT_FOR_S = 25.0
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 5.0


class MasterApi:
    """One master's API. Thread-safe but for ``close``.

    Args:
        url: Base URL, such as ``http://127.0.0.1:40001``.
        api_token: None if the master asks for none.
        timeout_s: How long a request may make no progress; streams have their own limit.
        trust: The certificates for an https URL; the files are read here.
        tickets: The Kerberos tickets to use without an api token; None for the user's own.

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
            # Loading the certificates takes 20 ms, and a plain URL needs none.
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
        """Why the last request had no Kerberos ticket although one was wanted; else empty."""
        return self._proving.lack

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def status(self) -> Json:
        """Return the answer of ``GET /api/v1/status``."""
        return self.get("/api/v1/status")

    def cluster(self) -> str:
        """Return the name of the cluster whose master answers."""
        return str(self.status().get("name"))

    def instances(self) -> Json:
        """Return every live instance; ``in_view`` says whether it is in the view."""
        return self.get("/api/v1/instances")

    def affinity(self) -> Json | None:
        """Return the rules by which requests belong together; None: the master tells none."""
        try:
            return self.get("/affinity")
        except NotFoundError:  # an older master
            return None

    def events(self) -> list[Json]:
        """Return the kept events, oldest first."""
        return list(self.get("/api/v1/events")["events"])

    def decisions(self) -> list[Json]:
        """Return the kept decisions, oldest first."""
        return list(self.get("/api/v1/decisions")["decisions"])

    def scaling(self) -> Json:
        """Return the size and its reason, what comes next, and the signals."""
        return self.get("/api/v1/scaling")

    def get(self, path: str) -> Json:
        """Return the JSON object at *path*.

        Raises:
            TarnError: ``NotAuthorizedError``, ``NotFoundError``, ``UnreachableError``,
                ``TimedOutError`` or another subclass, by the master's answer.
        """
        return self._ask("GET", path)

    def text(self, path: str) -> str:
        """Return the text at *path*, such as ``/metrics``; raises as `get` does."""
        with translated(self.url, self._trust):
            response = self._client.get(
                f"{self.url}/{path.lstrip('/')}", headers={"Accept": "text/plain"}
            )
        if not response.is_success:
            self._answered(response)
        return response.text

    def scale(self, replicas: int | None, if_match: int | None = None) -> Json:
        """Set a manual size; None returns to the scaling policy.

        Raises:
            RefusedError: The size is outside of min and max, which the error names.
            ConflictError: *if_match* is not the present spec revision.
        """
        return self._put("scale", {"replicas": replicas}, if_match)

    def adapt(
        self,
        min: int | None = None,  # noqa: A002 (named as in the spec)
        max: int | None = None,  # noqa: A002
        if_match: int | None = None,
    ) -> Json:
        """Let the scaling policy choose the size, within limits; None keeps a limit."""
        return self._put("adapt", {"min": min, "max": max}, if_match)

    def pause(self, for_s: float, reason: str = "", if_match: int | None = None) -> Json:
        """Stop scaling decisions for *for_s* seconds."""
        return self._put("pause", {"for": for_s, "reason": reason}, if_match)

    def resume(self, if_match: int | None = None) -> Json:
        """End a pause, a freeze of replacements, or a halt of launches."""
        return self._put("resume", {}, if_match)

    def drain(self, instance_id: str, if_match: int | None = None, *, now: bool = False) -> Json:
        """Replace one instance, then withdraw and drain it; with *now*, withdraw it at once."""
        body = {"instance": instance_id, **({"now": True} if now else {})}
        return self._put("drain", body, if_match)

    def down(self, if_match: int | None = None) -> Json:
        """End the cluster."""
        return self._put("down", {}, if_match)

    def spec(self) -> Json:
        """Return the present spec as it was sent: ``digest``, and ``files`` by name."""
        return self.get("/api/v1/spec")

    def update(self, files: Mapping[str, str], changes: Sequence[str] = ()) -> Json:
        """Take the spec of *files* (as of `spec`); *changes* says in lines what differs.

        Raises:
            RefusedError: Another update is on its way.
            ConfigError: The spec is invalid.
        """
        return self._put("update", {"files": dict(files), "changes": list(changes)}, None)

    def hold_update(self, *, paused: bool) -> Json:
        """Let the update that is on its way wait, or go on."""
        return self._put("update", {"paused": paused}, None)

    def rollback(self, update: int | None = None) -> Json:
        """Undo the newest update; with *update*, only if that is its number.

        Raises:
            RefusedError: There is none.
        """
        return self._put("rollback", {} if update is None else {"update": update}, None)

    def control(self, call: int | None = None) -> Json:
        """Return the wanted control calls with their state; with *call*, only that one."""
        return self.get("/api/v1/control" + ("" if call is None else f"?call={call}"))

    def call_all(self, call: FleetCall, if_match: int | None = None) -> Json:
        """Send *call* to every present and future instance; ``call`` in the answer is its number.

        Raises:
            RefusedError: The Tritons do not take such calls, or too many are kept.
        """
        return self._put(call.verb, {**call.body, "request": call.request}, if_match)

    def acknowledge(self, applied: Applied, lease_s: float = 15.0) -> Json:
        """Acknowledge what this follower has applied; valid for *lease_s*."""
        body = {
            "epoch": str(applied.epoch),
            "revision": applied.revision,
            "at": applied.at,
            "error": applied.error,
            "sessions": dict(applied.sessions),
            "lease": lease_s,
        }
        if applied.sequences:  # only a master that tells of affinity knows the field
            body["sequences"] = dict(applied.sequences)
        return self._put(f"followers/{applied.name}", body, None)

    def demand(
        self,
        source: str,
        waiting: int,
        refused: int = 0,
        failures: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Json:
        """Report that *waiting* requests wait at *source* because there is no instance.

        It wakes a sleeping cluster, within its limits, unless a person set its size to 0. Repeat it
        every second or so: the master forgets it after ten seconds. *refused* requests since the
        last report wake the cluster too, but do not count as waiting.

        *failures* are bad answers since the last report that were not the caller's fault, by
        instance id and model. They make the master send its own test request, but start no
        instance; older masters refuse them.
        """
        body: dict[str, object] = {"from": source, "waiting": waiting}
        if refused:
            body["refused"] = refused
        if failures:
            body["failures"] = {id_: dict(models) for id_, models in failures.items()}
        return self._put("demand", body, None)

    def load_balancer(self, *, grpc: bool) -> Json:
        """Return what a load balancer needs to send Triton's management requests to the master.

        ``token`` is for its clients that prove nothing. With *grpc* the master starts that service;
        ``grpc_port`` is 0 if it cannot, and ``grpc_lack`` says why.
        """
        return self.get("/api/v1/load-balancer" + ("?grpc=true" if grpc else ""))

    def link(self) -> Json:
        """Return a ``code`` with which a browser can sign in once, within ``expires_in_s``.

        Raises:
            NotAuthorizedError: This client has no api token.
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
        """Yield messages; after a loss, reconnect with back-off and continue.

        Args:
            path: ``events``, ``decisions``, or ``stream`` for the view and the status.
            last_id: The ``Message.id`` to continue after; None for everything that is kept.
            stop: Set it, from any thread, to end the iteration within a quarter of a second.
            give_up_s: After this long without a message, ``UnreachableError`` is raised.
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
        with translated(self.url, self._trust):
            url = f"{self.url}/{path.lstrip('/')}"
            response = self._client.request(method, url, headers=headers, **arguments)
        return self._answered(response)

    def _answered(self, response: httpx.Response) -> Json:
        """Return the JSON object of a good answer, or raise; the error names a missing ticket."""
        try:
            return good_answer(response, self.url)
        except NotAuthorizedError as error:
            if not self.lack:
                raise
            step = (
                f"This master takes Kerberos tickets, and there is none here ({self.lack}): "
                f"{self._tickets.step}. {error.next_step}"
            )
            raise NotAuthorizedError(
                error.principal,
                error.action,
                error.model,
                next_step=step.strip(),
                negotiates=True,
            ) from error

    def _connected(
        self, path: str, last_id: str | None, stop: threading.Event
    ) -> Iterator[Message]:
        """Yield the messages of one connection; raise an error if there are none."""
        headers, heard = {"Accept": EVENT_STREAM, "Cache-Control": "no-store"}, False
        if last_id:
            headers["Last-Event-ID"] = last_id
        url = f"{self.url}/api/v1/{path.lstrip('/')}"
        timeout = httpx.Timeout(SILENT_FOR_S, connect=CONNECT_WITHIN_S)
        with (
            translated(self.url, self._trust),
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
