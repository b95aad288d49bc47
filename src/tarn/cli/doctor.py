"""`tarn doctor`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tarn import doctor
from tarn.cli.options import SpecSource, form_option, source_options
from tarn.cli.show import Talk, emit
from tarn.cluster import ClusterEnvironment, current_environment
from tarn.cluster.entries import kept_spec
from tarn.cluster.examining import Diagnosis, around_spec
from tarn.domain import ClusterSpec
from tarn.errors import NotFoundError
from tarn.hookspecs import FileCheck
from tarn.interfaces import Check, CheckResult

# No program's configuration is larger, so a larger file was named by mistake.
_MOST_BYTES = 4 * 2**20
_NOTHING = (
    "there is nothing to check: no tarn.yaml is here. Name one with -f, a cluster with -c, or a "
    "planned setting, such as --set runtime.use=yarn; or name a file of another program"
)


class _Doctor(click.Command):
    """A command with an option for each kind of file that plugins examine."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options, those of plugins first."""
        brought = [
            click.Option(
                [f"--{kind}"],
                metavar="FILE",
                multiple=True,
                expose_value=True,
                type=click.Path(path_type=Path),
                help=f"Examine {one.summary}; may be repeated.",
            )
            for kind, one in _file_kinds(ctx).items()
        ]
        return [*brought, *super().get_params(ctx)]


def _file_kinds(ctx: click.Context) -> Mapping[str, FileCheck]:
    around: ClusterEnvironment = ctx.obj or current_environment()
    return around.plugins().doctor_files()


@click.command("doctor", cls=_Doctor, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--probe", is_flag=True, help="Also start something briefly, such as a container.")
@form_option
@source_options
@click.pass_context
def doctor_command(
    ctx: click.Context, /, *, source: SpecSource, probe: bool, form: str, **named: Any
) -> int:
    """Find problems around a cluster before anything is started.

    Checks what the spec needs: the runtime, the repository, discoveries. Nothing is submitted
    unless --probe is given. With files of other programs and no option about a spec, only those
    files are checked.

    Exit code 0: nothing prevents the cluster from working; 1: something does; 2: wrong usage.
    """
    around: ClusterEnvironment = ctx.obj or current_environment()
    files = tuple(_files(ctx, named))
    told = bool(source.path or source.arguments or source.aliases)
    named_here = ctx.get_parameter_source("file") is click.core.ParameterSource.COMMANDLINE
    wanted = not files or probe or bool(source.arguments or source.aliases or named_here)
    if wanted and not told:
        raise click.UsageError(_NOTHING, ctx)
    talk = Talk()
    try:
        results = doctor.examine(files, around.clock, talk)
        if wanted:
            spec = _spec(source, around)
            results += around_spec(spec, around, talk, probe=probe).results
    finally:
        talk.done()
    found = Diagnosis(results)
    only_files = len(results) == len(files)
    # Editors recognize lines of the form ``path:line: level CODE: …``.
    lines = [
        f"{one.where}: {'error' if one.fatal else 'warning'} {one.code}: "
        f"{one.found.rstrip('.')}. {one.next_step}"
        for one in found.findings
    ]
    emit(found.plain(), form, lambda: "\n".join(lines) if only_files else str(found))
    if form == "table" and found.findings:
        click.echo(err=True)
    click.echo(found.summary, err=True)
    return int(not found.ok)


def _spec(source: SpecSource, around: ClusterEnvironment) -> ClusterSpec:
    """Return the spec; if only a cluster is named, the one with which it was started."""
    only_named = source.path is None and not source.aliases and set(source.arguments) == {"name"}
    if only_named:
        return kept_spec(around.paths.cluster(str(source.arguments["name"])))
    return source.load(around, partial=True).spec


def _files(ctx: click.Context, named: Mapping[str, Any]) -> Iterator[doctor.OfferedCheck]:
    """Yield a check for each file that was named, which is read at once."""
    for kind, one in _file_kinds(ctx).items():
        for path in dict.fromkeys(named.get(kind.replace("-", "_")) or ()):
            yield doctor.OfferedCheck(kind, _file_check(kind, one, path, _content(path)))


def _file_check(kind: str, one: FileCheck, path: Path, data: bytes) -> Check:
    def look() -> CheckResult:
        found = tuple(one.check(str(path), data))
        return CheckResult("" if found else "nothing to say", found)

    return Check(f"{kind} {path}", "This file decides how requests reach the cluster.", look)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"'{path}' cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise NotFoundError(
            f"'{path}' has more than {_MOST_BYTES >> 20} MiB; such a file is never that large"
        )
    return data
