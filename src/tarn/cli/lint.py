"""`tarn lint`."""

from pathlib import Path

import click

from tarn.cli.options import NAME, SpecSource, form_option, pass_around
from tarn.cli.show import Talk, columns, emit
from tarn.cluster import ClusterEnvironment
from tarn.cluster.start.linting import LintReport, examine
from tarn.domain import ClusterSpec, Severity
from tarn.interfaces.lint import LintFinding

_LEVELS = {Severity.ALERT: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


@click.command("lint")
@click.argument("repository", metavar="PATH|URI", required=False, type=NAME)
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    type=NAME,
    help="The spec of the cluster that will serve the models. [default without PATH|URI: "
    "./tarn.yaml]",
)
@click.option(
    "--fix", is_flag=True, help="Repair what has only one right answer, and print the diff."
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--ignore", metavar="CODE", multiple=True, help="Ignore this rule; may be repeated.")
@click.option("--rules", is_flag=True, help="List the rules, and check nothing.")
@form_option
@pass_around
def lint_command(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    *,
    repository: str | None,
    file: str | None,
    fix: bool,
    strict: bool,
    ignore: tuple[str, ...],
    rules: bool,
    form: str,
) -> int:
    """Find problems in the model repository at PATH|URI.

    Without PATH|URI, the repository of the spec is checked. With a spec, the models are also
    compared with its settings.

    An error prevents Triton from serving what is intended; a warning may; a note is information.
    Exit code 0: no error; 1: errors (with --strict also warnings); 2: wrong usage.
    """
    if rules:
        listed = around.plugins().lint_rules().items()
        rows = [{"rule": name, "finds": rule.summary} for name, rule in listed]
        emit(rows, form, lambda: columns(("RULE", "FINDS"), (tuple(row.values()) for row in rows)))
        return 0
    spec = _spec(file, around, needed=repository is None)
    target = repository or (spec.models.repository if spec else "")
    talk = Talk()
    try:
        report = examine(target, around, talk, repair=fix, ignore=ignore, spec=spec)
    finally:
        talk.done()
    plain = {
        "where": report.where,
        "models": report.models,
        "findings": [_row(finding) for finding in report.findings],
        "repaired": list(report.repaired),
    }
    lines = (_line(report.where, finding) for finding in report.findings)
    emit(plain, form, lambda: "\n".join((*report.repaired, *lines)))
    click.echo(_summary(report), err=True)
    matter = {Severity.ALERT, Severity.WARNING} if strict else {Severity.ALERT}
    return int(any(finding.level in matter for finding in report.findings))


def _spec(file: str | None, around: ClusterEnvironment, *, needed: bool) -> ClusterSpec | None:
    """Return the spec in *file*, else in ./tarn.yaml if it is *needed*."""
    path = Path(file or "tarn.yaml")
    if file is None and not needed:
        return None
    if file is None and not path.is_file():
        raise click.UsageError("name the repository (tarn lint PATH|URI), or a spec with -f")
    return SpecSource(path, {}, {}).load(around).spec


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


def _line(where: str, finding: LintFinding) -> str:
    """Return ``path:line:column: level CODE: …``, which editors recognize."""
    place = str(finding.place)
    whole = f"{where.rstrip('/')}/{place}" if place else where
    return f"{whole}: {_LEVELS[finding.level]} {finding.code}: {finding.sentence}"


def _summary(report: LintReport) -> str:
    """Return the numbers of models, and of findings by level."""
    levels = [_LEVELS[finding.level] for finding in report.findings]
    counts = [_count(levels.count(name), name) for name in _LEVELS.values() if name in levels]
    fixable = sum(finding.repair is not None for finding in report.findings)
    hint = f"; --fix repairs {fixable}" if fixable and not report.repaired else ""
    return f"{_count(report.models, 'model')}: {', '.join(counts) or 'nothing to say'}{hint}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
