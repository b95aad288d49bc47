"""Ask every rule about a repository."""

from collections.abc import Iterator, Mapping

from tarn.domain.lint import LintFinding, Location, Repository
from tarn.hookspecs import LintRule

__all__ = ["findings"]

_NO_REPOSITORY = frozenset({"TARN-2200", "TARN-2201", "TARN-2202", "TARN-2305"})


def findings(repository: Repository, rules: Mapping[str, LintRule]) -> tuple[LintFinding, ...]:
    """Return what the rules find, ordered by file, line and column; equal ones once.

    A rule that raises becomes a finding that names it: the others are heard.

    Args:
        repository: What was found on the disk.
        rules: The name of the rule, its plugin's in front where strangers see it, to the rule.
    """
    found = {one: None for name, rule in rules.items() for one in _heard(name, rule, repository)}
    ordered = sorted(found, key=_order)
    if any(one.code in _NO_REPOSITORY for one in ordered):  # the rest would follow from it
        ordered = [one for one in ordered if one.code in {*_NO_REPOSITORY, "TARN-2300"}]
    return tuple(ordered)


def _heard(name: str, rule: LintRule, repository: Repository) -> Iterator[LintFinding]:
    try:
        yield from rule.check(repository)
    except Exception as error:  # noqa: BLE001 (a stranger's code; said, never swallowed)
        yield LintFinding(
            "TARN-2300",
            Location(""),
            f"the rule '{name}' raised {type(error).__name__}: {error}",
            next_step="Tell its author; every other rule was checked.",
        )


def _order(finding: LintFinding) -> tuple[str, int, int, str, str]:
    place = finding.place
    return place.file, place.line or 0, place.column or 0, finding.code, finding.found
