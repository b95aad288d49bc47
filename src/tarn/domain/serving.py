"""When an instance serves. Triton is started lenient, so that this is ours to decide."""

import functools
import re
from collections.abc import Sequence

import attrs

from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.domain.reading import NOT_LOADED, ModelState, Reading
from tarn.domain.samples import Known, Unknown
from tarn.domain.spec import ModelsSpec

__all__ = ["Models", "ReadinessRule", "lacks_backends"]

Models = tuple[tuple[str, str, str], ...]
"""(model, Triton's state, reason) of each model that should be served."""
Versions = tuple[tuple[str, tuple[str, ...]], ...]
"""(model, its READY versions) of each one that is served."""

_NO_BACKEND = re.compile(r"unable to find (Python backend based )?backend library")
"""Triton has no code for it, so its words count (2.51)."""


def lacks_backends(models: Models) -> bool:
    """Say whether a back end is missing for all that cannot be served: no new start brings one."""
    unavailable = [reason for _, state, reason in models if state == "UNAVAILABLE"]
    return bool(unavailable) and all(map(_NO_BACKEND.search, unavailable))


class ReadinessRule:
    """Judges the readings of one tick: may the instance get traffic, and if not, why?

    It may when it is live, every model that it should serve is settled (READY, or UNAVAILABLE
    with a reason), at least one is READY (all, with ``require: all``), and warm-up is done.

    Models that a control call loads should be served, too, once Triton lists them; those that one
    unloads should not. Equal instances answer with one and the same list: it is judged once.

    Source: seen on Triton 2.51, where the strict settings make one bad model answer for all.
    """

    def __init__(self, spec: ModelsSpec, control: WantedCalls = NO_CALLS) -> None:
        self._spec = spec
        self._relevance = _Relevance(spec.serve, control.loaded, control.unloaded)
        self._judged: dict[tuple[int, bool], tuple[bool, str, Models]] = {}
        self._serving: dict[int, Versions] = {}

    def __call__(
        self, reading: Reading, *, started: bool = False
    ) -> tuple[bool, str, Models | None]:
        """Return (may it, why not in words, its models); no models when it did not answer.

        *started*: a model that it was never asked to load came into the repository later, and says
        nothing against it.
        """
        live, listed = reading.live, reading.models
        if isinstance(live, Unknown):
            return False, live.reason, None
        if not live.value:
            return False, "Triton says that it is not live", None
        if isinstance(listed, Unknown):
            return False, listed.reason, None
        serves, why, models = self._models(listed, started=started)
        if serves and not reading.warm:
            cold = f"; the last request failed: {reading.cold}" if reading.cold else ""
            return False, f"warm-up is still running{cold}", models
        return serves, why, models

    def _models(
        self, listed: Known[tuple[ModelState, ...]], *, started: bool
    ) -> tuple[bool, str, Models]:
        key = id(listed.value), started  # the readings of a tick outlive its judge
        if key not in self._judged:
            wanted = self._relevance.of(listed.value)
            models = tuple((m.name, m.state, m.reason) for m in wanted)
            asked = [m for m in wanted if not (started and m.reason == NOT_LOADED)]
            self._judged[key] = (*_settled(asked, self._spec), models)
        return self._judged[key]

    def versions(self, reading: Reading) -> Versions:
        """Return the READY versions of each model that it should serve, and does."""
        if isinstance(reading.models, Unknown):
            return ()
        listed = reading.models.value
        if id(listed) not in self._serving:
            self._serving[id(listed)] = _versions(self._relevance.of(listed))
        return self._serving[id(listed)]


@functools.lru_cache(maxsize=256)
def _versions(models: tuple[ModelState, ...]) -> Versions:
    return tuple((m.name, m.versions) for m in models if m.state == "READY")


@attrs.frozen
class _Relevance:
    """Which models should be served: ``models.serve`` (else all listed), and as calls say."""

    serve: tuple[str, ...]
    loaded: frozenset[str]
    unloaded: frozenset[str]

    def of(self, listed: tuple[ModelState, ...]) -> tuple[ModelState, ...]:
        """Return the states of these models; one of the spec that is not listed is unavailable."""
        if not self.serve:
            if not self.unloaded:
                return listed
            return tuple(m for m in listed if m.name not in self.unloaded)
        found = {m.name: m for m in listed}
        absent = "Triton does not list it: it is not in the repository"
        named = [name for name in self.serve if name not in self.unloaded]
        named += sorted((self.loaded & found.keys()).difference(named))
        return tuple(found.get(name, ModelState(name, "UNAVAILABLE", absent)) for name in named)


def _settled(wanted: Sequence[ModelState], spec: ModelsSpec) -> tuple[bool, str]:
    if not wanted:
        return False, "Triton lists no model"
    bad = [m for m in wanted if m.state == "UNAVAILABLE" and m.reason]
    ready = [m for m in wanted if m.state == "READY"]
    if len(bad) + len(ready) < len(wanted):
        open_ = [m.name for m in wanted if m not in bad and m not in ready]
        place = len(bad) + len(ready) + 1
        return False, f"loading model {place} of {len(wanted)}: {', '.join(open_[:3])}"
    if bad and (spec.require == "all" or not ready):
        return False, f"model {bad[0].name} is unavailable: {bad[0].reason}"
    return True, ""
