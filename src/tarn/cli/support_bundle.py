"""`tarn support-bundle`."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from tarn import config
from tarn.cli.options import NumberType, cluster_option, pass_around
from tarn.cli.show import columns
from tarn.cli.talk import Talk
from tarn.cluster import ClusterEnvironment, choose, connect
from tarn.cluster.bundle import FOLDERS, Bundle, BundleOptions, BundleSubject, make
from tarn.domain import ClusterSpec
from tarn.errors import ConfigError, NotFoundError, RefusedError, TarnError, UnreachableError


@click.command("support-bundle")
@cluster_option
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file to write; it must not exist. [default: ./tarn-CLUSTER-TIME.tar.gz]",
)
@click.option("--dry-run", is_flag=True, help="Collect and list everything, but write nothing.")
@click.option("--with-names", is_flag=True, help="Keep the names of people and machines.")
@click.option(
    "--names",
    "names_to",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File, for you only, that says which name each stand-in replaces.",
)
@click.option(
    "--log-mib",
    type=NumberType(0, 1024),
    default=2.0,
    show_default=True,
    help="How much to take from the end of each log.",
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(FOLDERS),
    help="Leave a folder out; may be repeated.",
)
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The tarn.yaml of a cluster whose spec is no longer kept here. [default: ./tarn.yaml]",
)
@click.option(
    "--unsearched-logs",
    is_flag=True,
    help="Include logs even if no spec is known, and so neither are the secrets that they may "
    "contain.",
)
@pass_around
def command(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    *,
    name: str | None,
    path: Path | None,
    dry_run: bool,
    with_names: bool,
    names_to: Path | None,
    log_mib: float,
    without: tuple[str, ...],
    file: Path | None,
    unsearched_logs: bool,
) -> None:
    """Collect diagnostics into one file, without secrets.

    The cluster need not answer, and may have ended: the files on this machine say a lot. Nothing is
    sent anywhere. Look through the file before you share it: its README.txt says what is in it,
    what is left out, and why.
    """
    talk = Talk()
    subject = _subject(name, file, around)
    wanted = BundleOptions(log_mib, without, with_names, unsearched_logs)
    try:
        made = make(subject, wanted, talk)
    finally:
        if subject.link is not None:
            subject.link.close()
        talk.done()
    if dry_run:
        click.echo(_table(made))
    else:
        path = path or Path(f"{made.folder}.tar.gz")
        made.write(path)
        click.echo(path)
    if names_to is not None and not dry_run:
        _tell_names(names_to, made.stand_ins)
    click.echo(_summary(made), err=True)


def _subject(name: str | None, file: Path | None, around: ClusterEnvironment) -> BundleSubject:
    """Return what is meant; a cluster of which nobody knows is told of as far as is possible."""
    if name is None:
        try:
            name = choose(around)
        except NotFoundError:
            if file is None:
                return BundleSubject("", around)
            name = config.load(file, environ=around.environ).spec.name
    planned = _planned(name, file, around)
    try:
        cluster = connect(name, environment=around)
    except (NotFoundError, UnreachableError) as error:
        if planned is None and not around.paths.cluster(name).is_dir():
            raise  # nothing at all is known under this name
        return BundleSubject(name, around, planned, unknown=error)
    return cluster.bundle_subject(planned)


def _planned(name: str, file: Path | None, around: ClusterEnvironment) -> ClusterSpec | None:
    """Return the spec in *file*; None: that in ./tarn.yaml, where it is one of the cluster.

    Raises:
        ConfigError: *file* was named, and cannot be meant.
    """
    if file is None:
        with contextlib.suppress(TarnError):
            spec = config.load(Path("tarn.yaml"), environ=around.environ).spec
            return spec if spec.name == name else None
        return None
    spec = config.load(file, environ=around.environ).spec
    if spec.name != name:
        raise ConfigError(f"is the spec of '{spec.name}', not of '{name}'", where=str(file))
    return spec


def _table(made: Bundle) -> str:
    rows: list[tuple[object, ...]] = [
        (part.path, len(made.files[part.path].encode("utf-8", "replace")), part.cut or part.what)
        for part in made.parts
        if not part.left_out
    ]
    rows += [(part.path, "-", part.left_out) for part in made.parts if part.left_out]
    return columns(("FILE", "BYTES", "WHAT"), rows)


def _summary(made: Bundle) -> str:
    """Return how much is in it, what is not, and what was taken out, in one line."""
    missing = sum(bool(part.left_out) for part in made.parts)
    taken = ", ".join(f"{count} x {kind}" for kind, count in sorted(made.redacted.items()))
    return (
        f"{len(made.files)} files; {missing} left out; taken out: {taken or 'nothing'}. Look "
        "through it before you share it."
    )


def _tell_names(path: Path, stand_ins: Mapping[str, str]) -> None:
    """Write who is who, for the owner alone."""
    told = json.dumps({stand_in: name for name, stand_in in stand_ins.items()}, indent=2)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            try:
                file.write(f"{told}\n")
                file.flush()
            except OSError:
                path.unlink(missing_ok=True)
                raise
    except FileExistsError as error:
        raise RefusedError(
            "the file already exists, and is not replaced", code="TARN-3842", where=str(path)
        ) from error
    except OSError as error:
        raise TarnError(
            f"cannot be written ({error.strerror})", code="TARN-3841", where=str(path)
        ) from error
