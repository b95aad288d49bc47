"""`tarn lint`."""

from collections.abc import Iterable

import click

from tarn.cli.options import NAME, form_option, pass_around
from tarn.cli.show import columns, emit
from tarn.cli.talk import Talk
from tarn.cluster import ClusterEnvironment
from tarn.cluster.linting import LintReport, examine
from tarn.domain import Severity
from tarn.domain.lint import LintFinding

_LEVELS = {Severity.ALERT: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


@click.command("lint")
@click.argument("repository", metavar="PATH|URI", required=False, type=NAME)
@click.option(
    "--fix", is_flag=True, help="Repair what has only one right answer, and print the diff."
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--ignore", metavar="CODE", multiple=True, help="Ignore this rule; may be repeated.")
@click.option("--rules", is_flag=True, help="List the rules, and check nothing.")
@form_option
@pass_around
def command(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    *,
    repository: str | None,
    fix: bool,
    strict: bool,
    ignore: tuple[str, ...],
    rules: bool,
    form: str,
) -> int:
    """Find problems in the model repository at PATH|URI.

    An error prevents Triton from serving what is intended; a warning may; a note is information.
    Exit code 0: no error; 1: errors (with --strict also warnings); 2: wrong usage.
    """
    if rules:
        _list_rules(around, form)
        return 0
    if repository is None:
        raise click.UsageError("name the repository: tarn lint PATH|URI")
    talk = Talk()
    try:
        report = examine(repository, around, talk, repair=fix, ignore=ignore)
    finally:
        talk.done()
    emit(_plain(report), form, lambda: _text(report))
    click.echo(_summary(report), err=True)
    matter = {Severity.ALERT, Severity.WARNING} if strict else {Severity.ALERT}
    return int(any(finding.level in matter for finding in report.findings))


def _list_rules(around: ClusterEnvironment, form: str) -> None:
    found = around.plugins().lint_rules()
    rows = [{"rule": name, "finds": rule.summary} for name, rule in found.items()]
    emit(rows, form, lambda: columns(("RULE", "FINDS"), (tuple(row.values()) for row in rows)))


def _plain(report: LintReport) -> dict[str, object]:
    return {
        "where": report.where,
        "models": report.models,
        "findings": [_row(finding) for finding in report.findings],
        "repaired": list(report.repaired),
    }


def _row(finding: LintFinding) -> dict[str, object]:
    place = finding.place
    return {
        "code": finding.code,
        "level": _LEVELS[finding.level],
        "file": place.file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
        "line": place.line,
        "column": place.column,
        "found": finding.found,
        "right": finding.right,
        "next_step": finding.next_step,
        "fixable": finding.repair is not None,
    }


def _text(report: LintReport) -> str:
    lines: Iterable[str] = (_line(report.where, finding) for finding in report.findings)
    return "\n".join((*report.repaired, *lines))


def _line(where: str, finding: LintFinding) -> str:
    """Return ``path:line:column: level CODE: …``, which editors follow."""
    place = str(finding.place)
    whole = f"{where.rstrip('/')}/{place}" if place else where
    return f"{whole}: {_LEVELS[finding.level]} {finding.code}: {finding.sentence}"


def _summary(report: LintReport) -> str:
    """Return how many models were looked at, and how many findings of each level there are."""
    levels = [_LEVELS[finding.level] for finding in report.findings]
    counts = [_count(levels.count(name), name) for name in _LEVELS.values() if name in levels]
    fixable = sum(finding.repair is not None for finding in report.findings)
    hint = f"; --fix repairs {fixable}" if fixable and not report.repaired else ""
    return f"{_count(report.models, 'model')}: {', '.join(counts) or 'nothing to say'}{hint}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
