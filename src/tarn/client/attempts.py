"""The attempts of one call: where it was tried, what failed, and whether it may go on."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeVar

from tritonclient.utils import InferenceServerException

from tarn.client.http_connection import (
    CutError,
    HttpResponse,
    LateError,
    NotConnectedError,
    WireError,
)
from tarn.client.pool import Affine, InstancePool, PoolMember
from tarn.client.targets import ClientOptions, ServiceAddress
from tarn.descriptors import shortage
from tarn.errors import RefusedError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import Clock
from tarn.triton.answers import Culprit, blame, error_line

__all__ = [
    "CallAttempts",
    "one_of",
    "raise_if_error",
    "several",
    "single",
    "whose_fault",
]

T = TypeVar("T")

OK = 200


def raise_if_error(answer: HttpResponse) -> None:
    """Raise tritonclient's exception if Triton answered with an error."""
    if answer.status_code == OK:
        return
    status, text = str(answer.status_code), answer.body.decode("utf-8", "replace")
    try:
        said = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        raise InferenceServerException(
            msg=f"the answer {status} has no error text: {text[:200]}",
            status=status,
            debug_details=text,
        ) from None
    raise InferenceServerException(msg=said, status=status)


def whose_fault(answer: HttpResponse) -> Culprit | None:
    """Return whose fault *answer* is; None if it is not an error."""
    if answer.status_code < HTTPStatus.BAD_REQUEST:
        return None
    return blame(answer.status_code, error_line(answer.body))


def single(target: ServiceAddress, error: WireError) -> TarnError:
    """Return the error of a request to exactly *target*."""
    kind = TimedOutError if isinstance(error, LateError) else UnreachableError
    return kind(str(error), where=target.name)


def one_of(said: Mapping[str, T]) -> T:
    """Return one of the answers to a call that all instances were asked to do.

    Raises:
        UnreachableError: There is no answer, since there was no instance.
    """
    for answer in said.values():
        return answer
    raise UnreachableError("the view has no instance, so nothing was done")


def several(failed: Mapping[str, Exception], of: int) -> TarnError:
    """Return one error for all *failed* instances, out of *of*."""
    each = "; ".join(f"{name}: {error}" for name, error in failed.items())
    kind = (
        UnreachableError
        if all(isinstance(error, TarnError) for error in failed.values())
        else RefusedError
    )
    return kind(f"{len(failed)} of {of} instances did not do it: {each}")


# With two repeats, a request that kills instances kills at most three.
MOST_REPEATS = 2
# Failures that an error text names.
MOST_TOLD = 5
_NOBODY_READY = "`tarn status` and `tarn why` say more"
_NOT_REACHED = (
    "If a firewall protects the machines of the instances, send requests to the fleet's load "
    "balancer, or run the client on a machine that reaches them. A proxy in front of the "
    f"master, such as YARN's, does not pass requests on to instances. {_NOBODY_READY}"
)


class CallAttempts:
    """The attempts of one call, and the decision whether there is another one.

    After a refused connection another instance is always tried, within `ClientOptions.wait_s`;
    after one that was cut, only if the call may be repeated, and at most twice. After an answer
    503, which means that the instance did not take the request, one other instance is tried; so it
    is after the call was a failed trial of an instance that had been left alone.
    """

    __slots__ = (
        "_affine", "_clock", "_end_s", "_fleet", "_model", "_options", "_repeats", "_tells",
        "_told", "_trial", "_tried", "busy",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 (three by keyword)
        self,
        fleet: InstancePool,
        clock: Clock,
        options: ClientOptions,
        *,
        repeats: bool,
        model: str = "",
        affine: Affine | None = None,
    ) -> None:
        self._fleet, self._clock, self._options, self._model = fleet, clock, options, model
        self._affine = affine
        self._end_s: float | None = None
        self._repeats = MOST_REPEATS if repeats else 0
        self._tried: set[PoolMember] = set()
        self._told: list[str] = []
        self._tells = 0
        self._trial = False
        self.busy = False

    def take(self) -> PoolMember | None:
        """Return the instance to send it to; None to wait for `left_s` and ask again."""
        slot = self._fleet.take(
            self._tried, self._model, repeats=self._repeats > 0, affine=self._affine
        )
        self._trial = slot is not None and slot.alone_for(self._model)
        return slot

    def left_s(self, trouble: str = "") -> float:
        """Return how long the call may still wait for an instance.

        Args:
            trouble: Why the view may be old; for the error.

        Raises:
            UnreachableError: The time is over; the error names what was tried.
        """
        now_s = self._clock.now_s()
        if self._end_s is None:
            self._end_s = now_s + self._options.wait_s
        if now_s >= self._end_s:
            raise self._gave_up(trouble)
        return self._end_s - now_s

    def failed(self, slot: PoolMember, error: WireError) -> None:
        """Return if the request may be sent again, else raise the error of the call.

        Raises:
            UnreachableError: It may not; the error names what was tried, or what this process
                lacks.
            TimedOutError: The answer did not come in time.
        """
        match error:
            # For example no file descriptors: that is not the fault of the instance.
            case NotConnectedError() if lack := shortage(error):
                step = "Close files that this process does not need, or raise its limit"
                found = f"no connection was made: {lack}"
                raise UnreachableError(found, where=slot.target.name, next_step=step) from error
            case NotConnectedError():
                self.refused(slot, error)
            case CutError():
                self.cut(slot, error)
            case LateError():
                if not self.spared(slot, Culprit.SERVER):
                    raise self.late(slot, error) from error
                self._note(slot, error)
            case _:
                raise UnreachableError(str(error), where=slot.target.name) from error

    def refused(self, slot: PoolMember, why: object) -> None:
        """Note that nothing was sent to *slot*, which is then left alone for a while.

        Raises:
            UnreachableError: The time to wait is over. Without any, `left_s` raises it when no
                instance is left to try.
        """
        self._note(slot, why)
        self._fleet.eject(slot)
        if self._options.wait_s > 0:
            self.left_s()

    def cut(self, slot: PoolMember, why: object) -> None:
        """Note that the request was cut, so that it may have been executed.

        Raises:
            UnreachableError: It may not be repeated, or not again.
        """
        self._note(slot, why)
        self._fleet.cut(slot, self._model)
        if self._repeats == 0:
            raise UnreachableError(
                f"the connection was cut before the whole answer arrived ({why}), so the "
                f"request may have been executed{self._before()}",
                where=slot.target.name,
                next_step="Send it again if running it twice does no harm",
            )
        self._repeats -= 1

    def late(self, slot: PoolMember, why: object) -> TimedOutError:
        """Return the error of a request whose answer did not come in time."""
        return TimedOutError(
            f"{why}; the request may still be executed{self._before()}",
            where=slot.target.name,
            next_step="Raise answer_within_s if answers may take this long",
        )

    def spared(self, slot: PoolMember, whose: Culprit | None) -> bool:
        """Return whether to ask another instance after *slot* failed by *whose* fault.

        It is so if the call was a trial of *slot*, and may be executed twice.
        """
        # A trial must not cost a user the request.
        bad = whose in (Culprit.SERVER, Culprit.MODEL)
        return bad and self._trial and self._repeats > 0 and self.elsewhere(slot)

    def elsewhere(self, slot: PoolMember) -> bool:
        """Return whether to ask one other instance, since *slot* did not take the request."""
        if self.busy or len(self._fleet.slots) == 1:
            return False
        self.busy = True
        self._tried.add(slot)
        return True

    def _note(self, slot: PoolMember, why: object) -> None:
        self._tried.add(slot)
        self._tells += 1
        self._told = [*self._told[-MOST_TOLD + 1 :], f"{slot.target.name}: {why}"]

    def _before(self) -> str:
        return f"; before that: {'; '.join(self._told[:-1])}" if self._told[:-1] else ""

    def _gave_up(self, trouble: str) -> UnreachableError:
        waited = f"within {self._options.wait_s:g} s"
        if self._told:
            more = f" and {self._tells - len(self._told)} more" * (self._tells > len(self._told))
            found = f"no instance took the request {waited} (tried {'; '.join(self._told)}{more})"
        elif self._fleet.slots:
            found = f"every instance refused connections, and none accepted one {waited}"
        else:
            found = f"no instance was ready {waited}"
        found += f". The master does not answer: {trouble}" if trouble else ""
        step = _NOT_REACHED if self._told or self._fleet.slots else _NOBODY_READY
        return UnreachableError(found, next_step=step)
