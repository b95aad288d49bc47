"""`tarn metrics`: a cluster's metrics, and the configuration of Prometheus and Grafana."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import yaml

from tarn.cli.options import cluster_option, pass_around, pass_cluster
from tarn.cli.show import emit, note
from tarn.cluster import Cluster, ClusterEnvironment, choose, connect
from tarn.cluster.monitoring import (
    DASHBOARDS,
    RULES,
    TargetFiles,
    follow_targets,
    metrics_rows,
    metrics_text,
    scrape_config,
    scrape_of,
    shipped,
)
from tarn.errors import ConfigError

__all__ = ["metrics_command"]

_FOLDER = click.option(
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write into this folder, and overwrite what is there. [default: print]",
)
_HEAD = """\
# Written by `tarn metrics scrape-config -c {0}`, for the master at {1}.
# A master may move when it is restarted: write this again then, and reload Prometheus; or let
# TARN follow the master: --follow.
"""
_FOLLOWED = """\
# Written by `tarn metrics scrape-config -c {0} --follow`, which writes the files named here again
# when the master moves.
"""


@click.group("metrics", invoke_without_command=True)
@cluster_option
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to print the metrics: `text` is what Prometheus gets.",
)
@pass_around
@click.pass_context
def metrics_command(
    ctx: click.Context, around: ClusterEnvironment, *, name: str | None, form: str
) -> None:
    """Show the metrics of a cluster; or write what Prometheus and Grafana need for them."""
    if ctx.invoked_subcommand is not None:
        if name is not None:
            raise click.UsageError(
                "-c NAME comes after `scrape-config`; the other subcommands take none"
            )
        return
    cluster = connect(name or choose(around), environment=around)
    try:
        text = metrics_text(cluster.source)
    finally:
        cluster.detach()
    if form == "text":
        click.echo(text, nl=False)
    else:
        emit(list(metrics_rows(text)), form, str)


@metrics_command.command("rules")
@_FOLDER
def rules(*, folder: Path | None) -> None:
    """Write the alert rules for Prometheus: a file for `rule_files`."""
    _give({name: shipped(name) for name in RULES}, folder)


@metrics_command.command("dashboards")
@_FOLDER
@click.argument("names", nargs=-1, type=click.Choice([Path(one).stem for one in DASHBOARDS]))
def dashboards(*, folder: Path | None, names: tuple[str, ...]) -> None:
    """Write the dashboards for Grafana: `fleet` is one cluster, `farm` all of one Prometheus.

    Grafana asks for the Prometheus when you import them.
    """
    chosen = [name for name in DASHBOARDS if not names or Path(name).stem in names]
    if folder is None and len(chosen) > 1:
        raise click.UsageError(
            "there are two dashboards: name one to print it, or give --output DIR"
        )
    _give({name: shipped(name) for name in chosen}, folder)


@metrics_command.command("scrape-config")
@click.option(
    "--credentials-file",
    "credentials",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File in which Prometheus finds its token. [default: one that opens only the metrics, "
    "kept with the cluster]",
)
@click.option(
    "--ca-file",
    "ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File in which Prometheus finds the authority of the master's certificate. [default: "
    "the one kept with the cluster]",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Keep running, and write the targets into files next to the configuration whenever they "
    "change: then Prometheus follows a master that moves. Needs --output.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="Write a complete prometheus.yml and the alert rules, for a Prometheus of any version "
    "that scrapes only this cluster. Needs --output.",
)
@_FOLDER
@pass_cluster
@pass_around
def scrape(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    cluster: Cluster,
    *,
    credentials: Path | None,
    ca: Path | None,
    follow: bool,
    whole: bool,
    folder: Path | None,
) -> None:
    """Write how Prometheus finds a running cluster: its master, and each Triton through it.

    The configuration names the file of the token, and never contains the token. Prometheus must be
    allowed to read that file.
    """
    for flag, given in (("--follow", follow), ("--whole", whole)):
        if given and folder is None:
            raise click.UsageError(f"{flag} writes files: name their folder with --output DIR")
    directory = around.paths.cluster(cluster.name)
    with _writing(directory):
        found = scrape_of(cluster.source, around, credentials, ca)
    files = None if folder is None or not follow else TargetFiles(folder, cluster.name, directory)
    rules = {name: shipped(name) for name in RULES} if whole else {}
    plain = ({"rule_files": list(rules)} if whole else {}) | scrape_config(found, files)
    head = (_HEAD if files is None else _FOLLOWED).format(found.cluster, found.url)
    text = head + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    _give({"prometheus.yml" if whole else f"tarn-{found.cluster}.yaml": text, **rules}, folder)
    if files is not None:
        with _writing(files.folder):
            files.write(cluster.source)
            stop = threading.Event()  # for SIGTERM; an interrupt raises KeyboardInterrupt
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            follow_targets(files, cluster.source, stop, note)


def _give(files: Mapping[str, str], folder: Path | None) -> None:
    """Write *files* into *folder* and print their paths; without a folder print them."""
    if folder is None:
        click.echo("".join(files.values()), nl=False)
        return
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            part = folder / f".{name}.part"
            try:
                part.write_text(text, "utf-8")
                part.replace(folder / name)  # Prometheus may read it at any time
            finally:
                part.unlink(missing_ok=True)
            click.echo(folder / name)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an `OSError` into a `ConfigError` about *folder*."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot be written ({error.strerror})",
            where=str(folder),
            next_step="Name a folder that you may write to with --output",
        ) from error
