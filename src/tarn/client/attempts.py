"""What becomes of one call: where it was tried, what failed, and whether it may go on."""

from tarn.client.http_connection import CutError, LateError, NotConnectedError, WireError
from tarn.client.options import ClientOptions
from tarn.client.pool import InstancePool, PoolMember
from tarn.descriptors import shortage
from tarn.errors import TimedOutError, UnreachableError
from tarn.interfaces import Clock
from tarn.triton.answers import Culprit

__all__ = ["CallAttempts"]

MOST_REPEATS = 2
"""A request that kills whoever executes it takes no more than three instances with it."""
MOST_TOLD = 5
_NOBODY_READY = "`tarn status` and `tarn why` say more"
_NOT_REACHED = (
    "If a firewall protects the machines of the instances, send requests to the fleet's load "
    "balancer, or run the client on a machine that reaches them. A proxy in front of the "
    f"master, such as YARN's, does not pass requests on to instances. {_NOBODY_READY}"
)


class CallAttempts:
    """The way of one call through the fleet.

    A refused connection is always tried elsewhere, until `ClientOptions.wait_s` is over. One that
    was cut is so only where the call may be repeated, and at most twice. An answer 503 means that
    the instance did not take the request; one other is asked. So is one where the call tried out
    whether an instance answers well again, and it did not, or not in time.
    """

    __slots__ = (
        "_clock", "_end_s", "_fleet", "_model", "_options", "_repeats", "_tells", "_told", "_trial",
        "_tried", "busy",
    )  # fmt: skip

    def __init__(
        self,
        fleet: InstancePool,
        clock: Clock,
        options: ClientOptions,
        *,
        repeats: bool,
        model: str = "",
    ) -> None:
        self._fleet, self._clock, self._options, self._model = fleet, clock, options, model
        self._end_s: float | None = None
        self._repeats = MOST_REPEATS if repeats else 0
        self._tried: set[PoolMember] = set()
        self._told: list[str] = []
        self._tells = 0
        self._trial = False
        self.busy = False

    def take(self) -> PoolMember | None:
        """Return where to send it now; None: wait `left_s`, then ask again."""
        slot = self._fleet.take(self._tried, self._model, repeats=self._repeats > 0)
        self._trial = slot is not None and slot.alone_for(self._model)
        return slot

    def left_s(self, trouble: str = "") -> float:
        """Return how long it may still be waited for an instance.

        Args:
            trouble: Why the view may be old.

        Raises:
            UnreachableError: No longer at all; the error names what was tried.
        """
        now_s = self._clock.now_s()
        if self._end_s is None:
            self._end_s = now_s + self._options.wait_s
        if now_s >= self._end_s:
            raise self._gave_up(trouble)
        return self._end_s - now_s

    def failed(self, slot: PoolMember, error: WireError) -> None:
        """Return when the request may be sent again.

        Raises:
            UnreachableError: Not once more; the error names what was tried, or what this process
                lacks: no instance is left alone for that.
            TimedOutError: The answer did not come in time.
        """
        match error:
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
        """Note that nothing was sent: another one may be asked; *slot* is left alone a while.

        Raises:
            UnreachableError: The time to wait is over (none at all: when none is left to ask).
        """
        self._note(slot, why)
        self._fleet.eject(slot)
        if self._options.wait_s > 0:
            self.left_s()

    def cut(self, slot: PoolMember, why: object) -> None:
        """Note that it may have been executed.

        Raises:
            UnreachableError: It may not be repeated, or not once more.
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
        """Return whether another instance is asked after a bad answer of *slot*, or none in time.

        It is where the call tried out whether *slot* answers well again, since a trial must cost
        no user a request; but not where the call may not be executed twice. *whose* fault it was.
        """
        bad = whose in (Culprit.SERVER, Culprit.MODEL)
        return bad and self._trial and self._repeats > 0 and self.elsewhere(slot)

    def elsewhere(self, slot: PoolMember) -> bool:
        """Return whether a request that *slot* was too busy for is asked of one other."""
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
