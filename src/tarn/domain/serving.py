"""Decide whether an instance serves. TARN starts Triton lenient, so that it decides this itself."""

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.domain.reading import ModelState, Reading
from tarn.domain.samples import Known, Unknown
from tarn.domain.spec import ModelsSpec

__all__ = ["Models", "ReadinessRule", "lacks_backends"]

Models = tuple[tuple[str, str, str], ...]
"""(model, Triton's state, reason) of each model that should be served."""
# (model, its READY versions) of each one that is served.
Versions = tuple[tuple[str, tuple[str, ...]], ...]

# Triton has no code for it, so its words count (2.51).
_NO_BACKEND = re.compile(r"unable to find (Python backend based )?backend library")


def lacks_backends(models: Models) -> bool:
    """Say whether every model that cannot be served lacks its back end; a restart cannot help."""
    unavailable = [reason for _, state, reason in models if state == "UNAVAILABLE"]
    return bool(unavailable) and all(map(_NO_BACKEND.search, unavailable))


class Judgement(NamedTuple):
    """The result of the readiness rule for one reading."""

    serves: bool
    why: str
    """Why it does not serve."""
    models: Models | None = None
    """Its models; None: it did not answer."""
    blamed: str = ""
    """The model that ``why`` is about; empty: none."""


class ReadinessRule:
    """Decides for the readings of one tick whether each instance may get traffic.

    It may when it is live, every model that it should serve is settled (READY, or UNAVAILABLE
    with a reason), at least one is READY (all, with ``require: all``), and warm-up is done.

    An instance should also serve the models that a control call loads, once Triton lists them, and
    need not serve those that a call unloads.
    """

    # Triton's own strict readiness is not used: with it, one bad model makes the whole server not
    # ready (seen on 2.51).

    def __init__(self, spec: ModelsSpec, control: WantedCalls = NO_CALLS) -> None:
        self._spec = spec
        self._relevance = _Relevance(spec.serve, control.loaded, control.unloaded)
        self._judged: dict[tuple[int, bool], Judgement] = {}
        self._serving: dict[int, Versions] = {}

    def __call__(self, reading: Reading, *, started: bool = False) -> Judgement:
        """Judge *reading*.

        *started*: a model that Triton was never asked to load is ignored, since it came into the
        repository after the start.
        """
        live, listed = reading.live, reading.models
        if isinstance(live, Unknown):
            return Judgement(serves=False, why=live.reason)
        if not live.value:
            return Judgement(serves=False, why="Triton says that it is not live")
        if isinstance(listed, Unknown):
            return Judgement(serves=False, why=listed.reason)
        judged = self._models(listed, started=started)
        if judged.serves and not reading.warm:
            cold = f"; the last request failed: {reading.cold}" if reading.cold else ""
            return judged._replace(serves=False, why=f"warm-up is still running{cold}")
        return judged

    def _models(self, listed: Known[tuple[ModelState, ...]], *, started: bool) -> Judgement:
        # Equal instances share one list of models, so it is judged once. Its id can be the key,
        # since the readings of a tick live longer than this object.
        key = id(listed.value), started
        if key not in self._judged:
            wanted = self._relevance.of(listed.value)
            models = tuple((m.name, m.state, m.reason) for m in wanted)
            asked = [m for m in wanted if not (started and m.not_loaded)]
            serves, why, blamed = _settled(asked, self._spec)
            self._judged[key] = Judgement(serves, why, models, blamed)
        return self._judged[key]

    def versions(self, reading: Reading) -> Versions:
        """Return the READY versions of each model that it should serve and does serve."""
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
    """The models that should be served: ``models.serve`` (or all), changed by control calls."""

    serve: tuple[str, ...]
    loaded: frozenset[str]
    unloaded: frozenset[str]

    def of(self, listed: tuple[ModelState, ...]) -> tuple[ModelState, ...]:
        """Return the states of these models; a missing one of the spec is UNAVAILABLE."""
        if not self.serve:
            if not self.unloaded:
                return listed
            return tuple(m for m in listed if m.name not in self.unloaded)
        found = {m.name: m for m in listed}
        absent = "Triton does not list it: it is not in the repository"
        named = [name for name in self.serve if name not in self.unloaded]
        named += sorted((self.loaded & found.keys()).difference(named))
        return tuple(found.get(name, ModelState(name, "UNAVAILABLE", absent)) for name in named)


def _settled(wanted: Sequence[ModelState], spec: ModelsSpec) -> tuple[bool, str, str]:
    """Return whether the models serve, why not, and the model that is the reason."""
    if not wanted:
        return False, "Triton lists no model", ""
    bad = [m for m in wanted if m.state == "UNAVAILABLE" and m.reason]
    ready = [m for m in wanted if m.state == "READY"]
    if len(bad) + len(ready) < len(wanted):
        open_ = [m.name for m in wanted if m not in bad and m not in ready]
        place = len(bad) + len(ready) + 1
        return False, f"loading model {place} of {len(wanted)}: {', '.join(open_[:3])}", ""
    if bad and (spec.require == "all" or not ready):
        return False, f"model {bad[0].name} is unavailable: {bad[0].reason}", bad[0].name
    return True, "", ""
