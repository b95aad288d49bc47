"""`tarn support-bundle`."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from tarn.errors import RefusedError, TarnError
from tarn.interfaces import ClusterInspection
from tarn.plain.parameters import NAME, NumberType
from tarn_plugins.cli.support_bundle.making import FOLDERS, Bundle, BundleOptions, make

__all__ = ["command"]


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in ctx.meta["tarn.names"]() if name.startswith(incomplete)]


@click.command("support-bundle")
@click.option(
    "-c",
    "--cluster",
    "name",
    metavar="NAME",
    type=NAME,
    shell_complete=_complete,
    help="Which cluster. [default: the name in ./tarn.yaml, else the only one]",
)
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
@click.pass_context
def command(  # noqa: PLR0913 (one for each option)
    ctx: click.Context,
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
    subject: ClusterInspection = ctx.meta["tarn.inspect"](name, file)
    with contextlib.closing(subject):
        made = make(subject, BundleOptions(log_mib, without, with_names, unsearched_logs))
    if dry_run:
        click.echo(_table(made))
    else:
        path = path or Path(f"{made.folder}.tar.gz")
        made.write(path)
        click.echo(path)
    if names_to is not None and not dry_run:
        _tell_names(names_to, made.stand_ins)
    missing = sum(bool(part.left_out) for part in made.parts)
    taken = ", ".join(f"{count} x {kind}" for kind, count in sorted(made.redacted.items()))
    click.echo(
        f"{len(made.files)} files; {missing} left out; taken out: {taken or 'nothing'}. Look "
        "through it before you share it.",
        err=True,
    )


def _table(made: Bundle) -> str:
    rows: list[tuple[object, ...]] = [("FILE", "BYTES", "WHAT")]
    rows += [
        (part.path, len(made.files[part.path].encode("utf-8", "replace")), part.cut or part.what)
        for part in made.parts
        if not part.left_out
    ]
    rows += [(part.path, "-", part.left_out) for part in made.parts if part.left_out]
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _tell_names(path: Path, stand_ins: Mapping[str, str]) -> None:
    """Write which name each stand-in replaces, readable for the owner only."""
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
