"""What `tarn doctor` found, as text for people, as a card for notebooks, as data for programs."""

from collections.abc import Iterator, Sequence

import attrs

from tarn.cluster import card
from tarn.cluster.table import columns
from tarn.doctor import CheckState, Result, totals, worst_last
from tarn.interfaces import Finding

__all__ = ["Diagnosis"]

_DOTS = {
    CheckState.OK: "ready",
    CheckState.UNKNOWN: "stopped",
    CheckState.WARNING: "warning",
    CheckState.ERROR: "failed",
}
"""The colours of a card, by the states that have them there."""


@attrs.frozen(repr=False)
class Diagnosis:
    """The result of an examination; printed, it is read from top to bottom, the worst last."""

    results: tuple[Result, ...]
    """In the order in which the checks were offered."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found that keeps a cluster from working."""
        return not any(result.fatal for result in self.results)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong."""
        return tuple(finding for result in self.results for finding in result.findings)

    @property
    def summary(self) -> str:
        """How many checks there were, and how many have each state."""
        counts = [_counted(count, state) for state, count in totals(self.results).items() if count]
        number = len(self.results)
        return f"{number} check{'' if number == 1 else 's'}: {', '.join(counts) or 'none'}"

    def plain(self) -> list[dict[str, object]]:
        """Return a row for each check, for programs."""
        return [result.plain() for result in self.results]

    def __str__(self) -> str:
        """Return what was seen, then what is wrong; without the summary."""
        quiet = [one for one in self.results if one.state in (CheckState.OK, CheckState.UNKNOWN)]
        wrong = [one for one in worst_last(self.results) if one.findings]
        table = columns(("STATE", "CHECK", "SEEN"), [(o.state, o.check, o.seen) for o in quiet])
        parts = [table] if quiet else []
        return "\n\n".join((*parts, *("\n".join(_block(one)) for one in wrong)))

    def __repr__(self) -> str:
        """Return what a person reads: a notebook shows the last value of a cell by it."""
        return f"{self}\n\n{self.summary}"

    def _repr_html_(self) -> str:
        worst_first = worst_last(self.results)[::-1]
        wrong = [
            (card.state(_DOTS[one.state], one.check), finding.code, _what(finding), *_words(one, i))
            for one in worst_first
            for i, finding in enumerate(one.findings)
        ]
        quiet = [
            (card.state(_DOTS[one.state], one.check), one.seen)
            for one in self.results
            if not one.findings
        ]
        return (
            card.line(self.summary, _DOTS[worst_first[0].state if worst_first else CheckState.OK])
            + card.rows(("check", "code", "what", "why it matters", "fix"), wrong)
            + card.rows(("check", "seen"), quiet)
        )


def _words(result: Result, number: int) -> tuple[str, str]:
    return "" if number else result.matters, result.findings[number].next_step


def _counted(count: int, state: CheckState) -> str:
    plural = "s" if state in (CheckState.ERROR, CheckState.WARNING) and count != 1 else ""
    return f"{count} {state}{plural}"


def _block(result: Result) -> Iterator[str]:
    """Yield the lines of one check that found something: what, why it matters, how to fix it."""
    yield f"{result.state}: {result.check}"
    for number, finding in enumerate(result.findings):
        yield f"  what  {_what(finding)} [{finding.code}]"
        if not number:
            yield f"  why   {result.matters}"
        yield f"  fix   {_sentence(finding.next_step)}"


def _what(finding: Finding) -> str:
    return f"{finding.where}: {finding.found}" if finding.where else finding.found


def _sentence(text: str) -> str:
    return text.rstrip(".")


def levels(findings: Sequence[Finding]) -> str:
    """Return how many errors and warnings there are."""
    errors = sum(finding.fatal for finding in findings)
    counts = ((errors, CheckState.ERROR), (len(findings) - errors, CheckState.WARNING))
    said = ", ".join(_counted(count, state) for count, state in counts if count)
    return said or "nothing to say"
