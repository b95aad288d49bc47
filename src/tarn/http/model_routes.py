"""What is measured: ``/api/v1/models`` by model, ``/api/v1/sd`` for Prometheus."""

from collections.abc import Iterator, Mapping

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.control.snapshot import Snapshot
from tarn.domain import Instance
from tarn.domain.model_totals import OTHER, ModelRates
from tarn.http.answers import json_answer
from tarn.http.rights import Rights, principal_of
from tarn.http.sources import Sources

__all__ = ["ModelRoutes", "models_json", "sd_json"]

Json = Mapping[str, object]


@attrs.frozen(eq=False)
class ModelRoutes:
    """One method for each route; none of them waits for anything but the authorizer."""

    sources: Sources
    rights: Rights

    def routes(self) -> list[Route]:
        """Return the routes; all of them GET and HEAD."""
        return [Route("/api/v1/models", self.models), Route("/api/v1/sd", self.sd)]

    async def models(self, request: Request) -> Response:
        """Answer a row for each model that the asker may list."""
        now = self.sources.board.current
        hidden = await self.rights.hidden(principal_of(request), now)
        return json_answer(hidden.row({"models": list(models_json(now))}))

    async def sd(self, _request: Request) -> Response:
        """Answer where Triton's own metrics are, as Prometheus' HTTP service discovery."""
        return json_answer(list(sd_json(self.sources.board.current)))


def models_json(snapshot: Snapshot) -> Iterator[Json]:
    """Yield a row for each model that an instance has, by name; null where nothing is known.

    Rates are means over about ten seconds, times those of the requests that ended in them.
    """
    held: dict[str, list[tuple[Instance, str, str]]] = {}
    for instance in snapshot.instances:
        for name, state, reason in instance.models:
            held.setdefault(name, []).append((instance, state, reason))
    for name, rows in sorted(held.items()):
        rates = ModelRates() if name == OTHER else snapshot.models.rates(name)
        yield {
            "name": name,
            "state": _worst(state for _, state, _ in rows),
            "instances": [
                {"id": instance.id, "state": state, "reason": reason}
                for instance, state, reason in rows
            ],
            "requests_per_s": rates.requests_per_s,
            "failures_per_s": rates.failures_per_s,
            "latency_ms": _ms(rates.latency_s),
            "queue_ms": _ms(rates.queue_s),
            "busy": rates.busy,
        }


def sd_json(snapshot: Snapshot) -> Iterator[Json]:
    """Yield one target for each instance that has an address, with what is known of it."""
    for instance in snapshot.instances:
        if instance.endpoint is None:
            continue
        yield {
            "targets": [instance.endpoint.metrics],
            "labels": {
                "__meta_tarn_cluster": snapshot.name,
                "__meta_tarn_runtime": snapshot.runtime,
                "__meta_tarn_epoch": str(snapshot.epoch),
                "__meta_tarn_instance": instance.id,
                "__meta_tarn_container_id": instance.container_id or "",
                "__meta_tarn_host": instance.endpoint.host,
                "__meta_tarn_node": instance.node or "",
                "__meta_tarn_state": str(instance.state),
                "__meta_tarn_spec_hash": instance.spec_hash,
            },
        }


_BY_WORTH = ("UNAVAILABLE", "LOADING", "UNLOADING", "READY")


def _worst(states: Iterator[str]) -> str:
    """Return the state that a person should know of first; a word that is new goes before all."""
    return min(states, key=lambda s: _BY_WORTH.index(s) if s in _BY_WORTH else -1)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
