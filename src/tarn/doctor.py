"""Run the checks of `tarn doctor` in parallel, each with a deadline."""

import enum
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs

from tarn.errors import ConfigErrors, PluginError, TarnError
from tarn.interfaces import Check, CheckResult, Clock, Finding, Progress

__all__ = [
    "CheckState",
    "OfferedCheck",
    "Result",
    "examine",
    "finding",
    "once",
    "totals",
    "worst_last",
]

# Checks that run at the same time; one that was given up is not counted.
AT_ONCE = 8
# Characters of the progress line for the names of the running checks.
_WORDS = 80


class CheckState(enum.StrEnum):
    """The result of a check, from the best to the worst."""

    OK = "ok"
    UNKNOWN = "unknown"
    """The check is not possible here, or did not finish in time."""
    WARNING = "warning"
    ERROR = "error"
    """A finding that prevents a cluster from working."""


@attrs.frozen
class OfferedCheck:
    """A check, and the plugin that offers it."""

    plugin: str
    """``tarn`` for what is built in."""
    check: Check


@attrs.frozen
class Result:
    """The result of one check."""

    check: str
    matters: str
    state: CheckState
    seen: str
    """What the check saw, or why it could not; may be empty if there are findings."""
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, check: Check, looked: CheckResult) -> "Result":
        """Return the result of *check*, which returned *looked*."""
        return cls(check.name, check.matters, _state(looked), looked.seen, looked.findings)

    @property
    def fatal(self) -> bool:
        """Whether it prevents a cluster from working."""
        return self.state is CheckState.ERROR

    def plain(self) -> dict[str, object]:
        """Return the result as JSON-serializable data."""
        return {
            "check": self.check,
            "state": str(self.state),
            "seen": self.seen,
            "matters": self.matters,
            "findings": [
                {
                    "code": one.code,
                    "level": "error" if one.fatal else "warning",
                    "where": one.where,
                    "found": one.found,
                    "next_step": one.next_step,
                }
                for one in self.findings
            ],
        }


def examine(
    offered: Sequence[OfferedCheck],
    clock: Clock,
    hear: Callable[[Progress], None] = lambda _progress: None,
    at_once: int = AT_ONCE,
) -> tuple[Result, ...]:
    """Run the *offered* checks, *at_once* at a time, and return the results in that order.

    Each check has a thread. The result of one that takes longer than its ``within_s`` is unknown;
    its thread cannot be stopped, and runs until the process ends.

    Raises:
        PluginError: Two checks have the same name.
    """
    _unique(offered)
    return _Round(offered, clock, hear).run(at_once)


def finding(error: TarnError) -> Finding:
    """Return the finding for an *error* that a check raised."""
    found = f"{error.found.rstrip('.')}. {error.right}" if error.right else error.found
    return Finding(error.code, error.where, found, error.next_step or f"tarn help {error.code}")


def once(results: Iterable[Result]) -> tuple[Result, ...]:
    """Return *results* with each finding only in the first check that has it."""
    told: set[Finding] = set()
    left: list[Result] = []
    for result in results:
        new = tuple(one for one in dict.fromkeys(result.findings) if one not in told)
        told.update(new)
        if new == result.findings:
            left.append(result)
            continue
        seen = result.seen or ("" if new else "nothing that other checks do not report")
        state = _state(CheckResult(seen, new, known=result.state is not CheckState.UNKNOWN))
        left.append(attrs.evolve(result, state=state, seen=seen, findings=new))
    return tuple(left)


def totals(results: Iterable[Result]) -> Mapping[CheckState, int]:
    """Return the number of checks in each state, the worst state first."""
    counts = dict.fromkeys(reversed(CheckState), 0)
    for result in results:
        counts[result.state] += 1
    return MappingProxyType(counts)


def worst_last(results: Iterable[Result]) -> tuple[Result, ...]:
    """Return *results* sorted from the best to the worst state."""
    # In a terminal the last lines stay visible.
    order = tuple(CheckState)
    return tuple(sorted(results, key=lambda result: order.index(result.state)))


class _Round:
    """One run of all checks. Used by one thread; the checks' threads only put results."""

    def __init__(
        self, offered: Sequence[OfferedCheck], clock: Clock, hear: Callable[[Progress], None]
    ) -> None:
        self._offered, self._clock, self._hear = offered, clock, hear
        self._answers: queue.SimpleQueue[tuple[int, Result]] = queue.SimpleQueue()
        self._results: dict[int, Result] = {}
        self._until_s: dict[int, float] = {}
        """The deadline of each running check."""

    def run(self, at_once: int) -> tuple[Result, ...]:
        """Begin all, and wait for all."""
        waiting = list(enumerate(self._offered))[::-1]
        while waiting or self._until_s:
            while waiting and len(self._until_s) < at_once:
                self._begin(*waiting.pop())
            names = ", ".join(self._offered[number].check.name for number in self._until_s)
            shown = names if len(names) <= _WORDS else f"{names[: _WORDS - 1]}…"
            done, of = len(self._results), len(self._offered)
            self._hear(Progress("looking", f"{done} of {of} done; {shown}", done, of))
            self._take_answer()
            now_s = self._clock.now_s()
            for number in [n for n, until_s in self._until_s.items() if until_s <= now_s]:
                del self._until_s[number]
                check = self._offered[number].check
                seen = f"it did not finish within {check.within_s:g} s"
                self._results[number] = Result.of(check, CheckResult(seen, known=False))
        return tuple(self._results[number] for number in range(len(self._offered)))

    def _begin(self, number: int, one: OfferedCheck) -> None:
        def look() -> None:
            self._answers.put((number, _result(one)))

        self._until_s[number] = self._clock.now_s() + one.check.within_s
        threading.Thread(target=look, name=f"doctor {one.check.name}", daemon=True).start()

    def _take_answer(self) -> None:
        """Take the next result, if one comes before the next deadline."""
        left_s = max(0.001, min(self._until_s.values()) - self._clock.now_s())
        try:
            number, result = self._answers.get(timeout=left_s)
        except queue.Empty:
            return
        if self._until_s.pop(number, None) is not None:  # None: it came after its deadline
            self._results[number] = result


def _result(one: OfferedCheck) -> Result:
    """Run one check; an exception becomes a finding."""
    check = one.check
    try:
        looked = _whole(check.look())
    except ConfigErrors as errors:
        looked = CheckResult("", tuple(finding(error) for error in errors.errors))
    except TarnError as error:
        looked = CheckResult("", (finding(error),))
    except BaseException as error:  # noqa: BLE001 (a plugin's code; it is reported)
        looked = CheckResult(
            "its check failed, so the result is unknown", (_fault(one, error),), known=False
        )
    return Result.of(check, looked)


def _whole(answer: object) -> CheckResult:
    """Return the *answer* of a check with its findings as a tuple.

    Raises:
        TypeError: *answer* is not a `CheckResult`, or has something other than findings.
    """
    if not isinstance(answer, CheckResult):
        raise TypeError(f"a CheckResult is needed, not {answer!r:.80}")
    findings = tuple(answer.findings)
    for one in findings:
        if not isinstance(one, Finding):
            raise TypeError(f"a Finding is needed, not {one!r:.80}")
    return attrs.evolve(answer, findings=findings)


def _fault(one: OfferedCheck, error: BaseException) -> Finding:
    """Return the finding for a plugin's own error; not fatal, as the cluster may be fine."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Finding(
        PluginError.default_code,
        f"plugin {one.plugin}",
        f"its check '{one.check.name}' raised {said}",
        f"Tell the plugin's author; TARN_DISABLED_PLUGINS={one.plugin} leaves it out",
        fatal=False,
    )


def _state(looked: CheckResult) -> CheckState:
    if any(one.fatal for one in looked.findings):
        return CheckState.ERROR
    if not looked.known:
        return CheckState.UNKNOWN
    return CheckState.WARNING if looked.findings else CheckState.OK


def _unique(offered: Iterable[OfferedCheck]) -> None:
    owners: dict[str, str] = {}
    for one in offered:
        name = one.check.name
        if name in owners:
            other = owners[name]
            raise PluginError(
                one.plugin,
                f"offers the check '{name}', which plugin {other} offers too"
                if other != one.plugin
                else f"offers two checks named '{name}'",
                next_step=f"Uninstall one, or set TARN_DISABLED_PLUGINS={one.plugin}",
            )
        owners[name] = one.plugin
