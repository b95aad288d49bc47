"""When an instance is left alone for its bad answers: the one rule of every client. Pure.

A refused connection says by itself that nothing serves there. A bad answer says less: it may be the
caller's fault, or the model's own wherever it is asked. So

- what the *server* cannot do (its model's process is gone, 502, 503, 504, no answer in time) counts
  after `SERVER_FAILURES` in a row;
- what the *model* says itself counts after `MODEL_FAILURES` in a row, and only if another instance
  has answered the same model well since they began;
- what the caller got wrong, and a full queue, count nothing.

Never are more than half of the instances left alone, and never the last one: a model that fails
everywhere is no reason to give all requests to whoever has not failed yet.

A client knows no test request: only the master has those, and it is told, so that it sends one. So
one request of a user tries out whether the instance answers well again, one at a time. It is a
request that may be repeated, and it is asked of another instance when the trial fails, so that the
user loses nothing. Only where for `UNREPEATED_AFTER_S` no such request came, another one tries.
"""

from collections.abc import Iterable

from tarn.triton.answers import Culprit

__all__ = [
    "LONGEST_BACK_OFF_S",
    "MODEL_FAILURES",
    "SERVER_FAILURES",
    "UNREPEATED_AFTER_S",
    "AnswerRecord",
    "back_off_s",
    "enough",
    "room",
]

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.2, 5.0
"""Also of an instance that refuses connections."""
SERVER_FAILURES = 2
"""One may be chance. Of a model whose process is gone each takes a second, and half of the requests
go there meanwhile."""
UNREPEATED_AFTER_S = 30.0
"""How long a trial waits for a request that may be repeated, before one that may not tries."""
MODEL_FAILURES = 5
"""Of callers half of whose requests are wrong, one in thirty would meet so many by chance."""


class AnswerRecord:
    """What one model at one instance answered lately."""

    __slots__ = ("failed", "since_s", "times", "tried", "until_s", "well_s")

    def __init__(self) -> None:
        self.failed = 0
        """Bad answers in a row that are the server's or the model's."""
        self.since_s = 0.0
        """When the first of them came."""
        self.well_s = float("-inf")
        """When the newest good answer came."""
        self.times = 0
        """How often in a row it was left alone; 0: it is not."""
        self.until_s = 0.0
        """Until when it is."""
        self.tried = False
        """One request tries out whether it answers well again."""

    @property
    def alone(self) -> bool:
        """Whether it is left alone, or tried out."""
        return self.times > 0

    def may_get(self, now_s: float, *, repeats: bool = True) -> bool:
        """Return whether a request may go there; *repeats*: it may be repeated elsewhere."""
        until_s = self.until_s if repeats else self.until_s + UNREPEATED_AFTER_S
        return self.times == 0 or (until_s <= now_s and not self.tried)

    def try_out(self) -> None:
        """Note that one request goes there; no other does until something became of it."""
        self.tried = True

    def answered_well(self, now_s: float) -> None:
        """Take a good answer."""
        self.well_s = now_s
        self.let_back()

    def let_back(self) -> None:
        """Forget the bad answers."""
        self.failed, self.times, self.until_s, self.tried = 0, 0, 0.0, False

    def told_nothing(self) -> None:
        """Take an end that says nothing of the instance; after a trial, another one may try."""
        self.tried = False

    def answered_badly(self, now_s: float) -> bool:
        """Take a bad answer; return whether it decides anything.

        One that was in flight before it was left alone does not.
        """
        if self.failed == 0:
            self.since_s = now_s
        self.failed += 1
        return self.tried or self.may_get(now_s)

    def leave_alone(self, now_s: float) -> None:
        """Leave it alone, for longer each time."""
        self.until_s, self.tried = now_s + back_off_s(self.times), False
        self.times += 1


def enough(record: AnswerRecord, whose: Culprit, others: Iterable[AnswerRecord]) -> bool:
    """Return whether *record*, whose newest answer was bad by *whose* fault, says enough.

    Args:
        record: Of one instance, the newest answer included.
        whose: The server's or the model's.
        others: Of the same model at the other instances.
    """
    if whose is Culprit.SERVER:
        return record.failed >= SERVER_FAILURES
    well = (other.well_s >= record.since_s for other in others)
    return whose is Culprit.MODEL and record.failed >= MODEL_FAILURES and any(well)


def room(alone: int, count: int) -> bool:
    """Return whether one more of *count* instances may be left alone, when *alone* are already."""
    return 2 * (alone + 1) <= count


def back_off_s(times: int) -> float:
    """Return for how long an instance is left alone that was so *times* in a row already."""
    return min(FIRST_BACK_OFF_S * 2.0 ** min(times, 10), LONGEST_BACK_OFF_S)
