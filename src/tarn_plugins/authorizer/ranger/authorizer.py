"""The authorizer `ranger`: Ranger's policies decide; what they cannot decide is denied."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from tarn.domain import ANONYMOUS, Principal, Readiness, Verdict
from tarn.domain.access import FLEET_ACTIONS, MODEL_ACTIONS
from tarn_plugins.authorizer.ranger.engine import (
    AccessRequest,
    AdminContact,
    RangerDecision,
    Staleness,
)

__all__ = ["Engine", "RangerAuthorizer"]

_LOG = logging.getLogger("tarn.ranger")
# How long a master waits for its audits at the end: they take milliseconds, unless the machine is
# very busy.
FLUSH_S = 0.8
# Principals of these kinds have a right to the fleet, but their names are not those of users.
_NAMELESS = ("token", "trusted-proxy")
_LOADING = "Ranger's policies are being loaded"


class Engine(Protocol):
    """The part of `tarn_plugins.authorizer.ranger.engine.RangerEngine` that is used here."""

    def version(self) -> int:
        """Return the version of the policies; -1 if there are none. Never blocks."""
        ...

    def decide(
        self, asker: Principal, questions: Sequence[AccessRequest]
    ) -> tuple[RangerDecision | None, ...]:
        """Return a decision for each question; None if there are no policies."""
        ...

    def close(self, within_s: float) -> None:
        """Write waiting audits, for at most *within_s* seconds."""
        ...


class RangerAuthorizer:
    """Asks an engine, which a thread opens, so that the master does not wait for it.

    Args:
        service: The service in Ranger Admin.
        cluster: The name of the cluster, which is the resource ``cluster``.
        heard: The engine's contact with Ranger Admin.
        opened: Returns the engine; may take seconds.
    """

    def __init__(
        self, service: str, cluster: str, heard: AdminContact, opened: Callable[[], Engine]
    ) -> None:
        self._service, self._cluster = service, cluster
        self._heard = heard
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._trouble = _LOADING
        self._closed = False
        self._opening = threading.Thread(
            target=self._open, args=(opened,), name="ranger-open", daemon=True
        )
        self._opening.start()

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the verdict of the policies."""
        return self.check_each(principal, action, (model,))[0]

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the verdict of the policies on each of *models*, in one call of the engine."""
        asked = [self._question(action, model) for model in models]
        questions = [one for one in asked if isinstance(one, AccessRequest)]
        answers = iter(self._answers(_asker(principal), questions))
        return tuple(_no(one) if isinstance(one, str) else next(answers) for one in asked)

    def ready(self) -> Readiness:
        """Return whether there are policies, and since when they are stale."""
        engine, trouble = self._now()
        if engine is None:
            return Readiness(ready=False, reason=trouble)
        if self._heard.gone or engine.version() < 0:
            return Readiness(ready=False, reason=self._without())
        stale = self._heard.stale()
        return Readiness(ready=True, reason="" if stale is None else f"stale: {stale}")

    def close(self) -> None:
        """Deny everything from now on, and write waiting audits."""
        with self._lock:
            engine, self._engine = self._engine, None
            self._trouble, self._closed = "the master leaves", True
        if engine is not None:
            engine.close(FLUSH_S)

    def wait(self, within_s: float) -> bool:
        """Wait until the attempt to open the engine has ended; return whether it has."""
        self._opening.join(within_s)
        return not self._opening.is_alive()

    def _open(self, opened: Callable[[], Engine]) -> None:
        try:
            engine = opened()
        except Exception as error:  # noqa: BLE001 (any error denies, also one of Java)
            _LOG.exception("Ranger's engine did not start: everything is denied")
            with self._lock:
                self._trouble = f"Ranger's engine did not start ({type(error).__name__}: {error})"
            return
        with self._lock:
            late = self._closed
            self._engine = None if late else engine
        if late:
            engine.close(FLUSH_S)

    def _now(self) -> tuple[Engine | None, str]:
        with self._lock:
            return self._engine, self._trouble

    def _question(self, action: str, model: str) -> AccessRequest | str:
        """Return the request for the engine, or why it is denied without asking."""
        if not _sayable(model):
            return "that is not the name of a model"
        if action in FLEET_ACTIONS:
            return AccessRequest("cluster", self._cluster, action)
        if action not in MODEL_ACTIONS:
            return "there is no such action"
        return AccessRequest("model", model, action) if model else "no model is named"

    def _answers(self, asker: Principal, questions: Sequence[AccessRequest]) -> Sequence[Verdict]:
        engine, trouble = self._now()
        if engine is None or not questions:
            return [_no(trouble)] * len(questions)
        if self._heard.gone:
            return [_no(self._without())] * len(questions)
        try:
            decisions = engine.decide(asker, questions)
        except Exception:  # noqa: BLE001 (as above)
            _LOG.exception("Ranger's engine raised: the answer is no")
            return [_no("Ranger's engine failed")] * len(questions)
        if len(decisions) != len(questions):
            return [_no("Ranger's engine gave an unexpected answer")] * len(questions)
        stale = self._heard.stale()
        return [self._verdict(decision, stale) for decision in decisions]

    def _verdict(self, decision: RangerDecision | None, stale: Staleness | None) -> Verdict:
        if decision is None:
            return _no(self._without())
        service = f"of the service '{self._service}'"
        if decision.policy < 0:
            reason = f"no Ranger policy {service} allows it"
        else:
            word = "allows" if decision.allowed else "denies"
            reason = f"Ranger policy {decision.policy} {service} {word} it"
        if stale is not None:
            return Verdict(decision.allowed, f"{reason}; {stale}", stale=True)
        return Verdict(decision.allowed, reason)

    def _without(self) -> str:
        why = self._heard.why
        return f"Ranger has no policies of the service '{self._service}'" + (
            f": {why}" if why else ""
        )


def _asker(principal: Principal) -> Principal:
    """Return the principal for the engine; anonymous if *principal* has no user's name."""
    if principal.via in _NAMELESS or not principal.user or not _sayable(principal.user):
        return ANONYMOUS
    return attrs.evolve(principal, groups=frozenset(filter(_sayable, principal.groups)))


def _sayable(name: str) -> bool:
    """Return whether *name* can be passed to Java, which a lone surrogate cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no(reason: str) -> Verdict:
    return Verdict(allowed=False, reason=reason)
