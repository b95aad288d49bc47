"""`tarn doctor`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tarn.cli.options import form_option
from tarn.cli.show import emit
from tarn.cluster import Surroundings, here
from tarn.errors import NotFoundError
from tarn.hookspecs import FileCheck
from tarn.interfaces import Finding

_MOST_BYTES = 4 * 2**20
"""No configuration of another program is larger."""


class _Doctor(click.Command):
    """A command with an option for each kind of file that plugins know; they are loaded for it."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options, those of plugins first."""
        return [
            *(_option(kind, one) for kind, one in _kinds(ctx).items()),
            *super().get_params(ctx),
        ]


def _kinds(ctx: click.Context) -> Mapping[str, FileCheck]:
    around: Surroundings = ctx.obj or here()
    return around.plugins().doctor_files()


def _option(kind: str, one: FileCheck) -> click.Option:
    return click.Option(
        [f"--{kind}"],
        metavar="FILE",
        multiple=True,
        expose_value=True,
        type=click.Path(path_type=Path),
        help=f"Examine {one.summary}; may be repeated.",
    )


@click.command("doctor", cls=_Doctor, context_settings={"help_option_names": ["-h", "--help"]})
@form_option
@click.pass_context
def command(ctx: click.Context, /, *, form: str, **named: Any) -> int:
    """Find what is wrong with files of other programs in front of a cluster.

    Exit code 0: nothing that matters; 1: something that keeps it from working; 2: wrong usage.
    """
    findings: list[Finding] = []
    asked = 0
    for kind, one in _kinds(ctx).items():
        for path in named.get(kind.replace("-", "_")) or ():
            findings += one.check(str(path), _content(path))
            asked += 1
    if not asked:
        raise click.UsageError("name a file: see tarn doctor --help")
    emit([_row(finding) for finding in findings], form, lambda: _text(findings))
    click.echo(_summary(findings), err=True)
    return int(any(finding.fatal for finding in findings))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"'{path}' cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise NotFoundError(f"'{path}' has more than {_MOST_BYTES >> 20} MiB; no such file is")
    return data


def _row(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "level": _level(finding),
        "where": finding.where,
        "found": finding.found,
        "next_step": finding.next_step,
    }


def _level(finding: Finding) -> str:
    return "error" if finding.fatal else "warning"


def _text(findings: Sequence[Finding]) -> str:
    """Return ``path:line: level CODE: …`` for each, which editors follow."""
    return "\n".join(
        f"{one.where}: {_level(one)} {one.code}: {one.found.rstrip('.')}. {one.next_step}"
        for one in findings
    )


def _summary(findings: Sequence[Finding]) -> str:
    errors = sum(finding.fatal for finding in findings)
    counts = ((errors, "error"), (len(findings) - errors, "warning"))
    said = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts if n)
    return said or "nothing to say"
