"""May they: how the event loop asks an authorizer without ever waiting for it too long."""

import logging
from collections.abc import Sequence
from typing import Protocol

import attrs

from tarn.domain import Principal, Verdict
from tarn.errors import ProviderError
from tarn.http.blocking_pool import BlockingPool
from tarn.interfaces import Authorizer

__all__ = ["AccessGate", "AuthorizerPool", "DirectAuthorizer"]

_LOG = logging.getLogger(__name__)


class AccessGate(Protocol):
    """Asked once for each request that is not to an open route."""

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the verdict; never raises, and never takes longer than its deadline."""
        ...

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the verdict for each of *models*, asked as one question."""
        ...


@attrs.frozen
class DirectAuthorizer:
    """Asks on the event loop: for authorizers that answer from memory, like ``none``."""

    authorizer: Authorizer

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the authorizer's verdict."""
        return _ask(self.authorizer, principal, action, (model,))[0]

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the authorizer's verdicts."""
        return _ask(self.authorizer, principal, action, models)


class AuthorizerPool:
    """Asks on a few threads; a full queue, a late answer and an exception are all a no.

    Args:
        authorizer: Must be thread-safe.
        threads: How many questions are asked at a time.
        waiting: How many more may wait; the next one is denied.
        deadline_s: Seconds from the question to its answer.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        *,
        threads: int = 4,
        waiting: int = 256,
        deadline_s: float = 2.0,
    ) -> None:
        self._authorizer = authorizer
        self._pool = BlockingPool(
            "the authorizer", threads=threads, waiting=waiting, deadline_s=deadline_s
        )

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the authorizer's verdict, or a no with the reason why there is none."""
        return (await self.allow_each(principal, action, (model,)))[0]

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the authorizer's verdicts, or as many times no with the reason."""
        try:
            return await self._pool.ask(lambda: _ask(self._authorizer, principal, action, models))
        except ProviderError as error:
            return _no(error.found, models)

    def close(self) -> None:
        """End the threads; one that hangs is left alone after a second. Idempotent."""
        self._pool.close()


def _ask(
    authorizer: Authorizer, principal: Principal, action: str, models: Sequence[str]
) -> tuple[Verdict, ...]:
    try:
        verdicts: tuple[Verdict, ...]
        if len(models) == 1:
            verdicts = (authorizer.check(principal, action, models[0]),)
        else:
            verdicts = tuple(authorizer.check_each(principal, action, models))
    except Exception:  # noqa: BLE001 (whatever it raises is a no, and stands in the log)
        _LOG.exception("the authorizer raised")
        return _no("the authorizer failed", models)
    if len(verdicts) != len(models) or not all(isinstance(one, Verdict) for one in verdicts):
        return _no("the authorizer returned no verdict", models)
    return verdicts


def _no(reason: str, models: Sequence[str]) -> tuple[Verdict, ...]:
    return (Verdict(allowed=False, reason=reason),) * len(models)
