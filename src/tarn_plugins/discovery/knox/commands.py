"""`tarn lb knox`."""

from collections.abc import Mapping
from pathlib import Path

import click

from tarn.errors import ConfigError, ProviderError
from tarn.interfaces import ClientContext
from tarn_plugins.discovery.knox.rendering import (
    EVERYONE,
    SERVICE,
    VARIABLE,
    Balancers,
    Ensemble,
    Shape,
    files,
    gate,
)

__all__ = ["knox"]

INSTANCES = "/services/triton/instances"
_out = click.option(
    "--out",
    metavar="DIRECTORY",
    default=".",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for the files.",
)

_JAR = "tarn-knox.jar"
_HERE = Path(__file__).parent


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def knox() -> None:
    """Configure Apache Knox in front of a cluster."""


@knox.command("config")
@click.option(
    "--url",
    "urls",
    metavar="HAPROXY_URL",
    multiple=True,
    help="Base URL of a HAProxy in front of the cluster; may be repeated.",
)
@click.option("--zookeeper", metavar="ENSEMBLE", help="Find the instances in ZooKeeper instead.")
@click.option(
    "--zookeeper-namespace",
    "namespace",
    metavar="PATH",
    default=INSTANCES,
    show_default=True,
    help="Path of the instances' nodes.",
)
@click.option("--name", default="triton", show_default=True, help="The topology's name.")
@click.option(
    "--acl",
    default=EVERYONE,
    show_default=True,
    help="Which authenticated users may use it: users;groups;addresses.",
)
@click.option(
    "--gate-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the secret that proves Knox to HAProxy, so that HAProxy trusts the users it "
    f"names. [default: {VARIABLE} in the environment, else none]",
)
@_out
@click.option("--dry-run", is_flag=True, help="Print the files instead of writing them.")
@click.pass_context
def config(  # noqa: PLR0913 (one for each option)
    ctx: click.Context,
    /,
    *,
    urls: tuple[str, ...],
    zookeeper: str | None,
    namespace: str,
    name: str,
    acl: str,
    gate_file: Path | None,
    out: Path,
    dry_run: bool,
) -> None:
    """Write what Knox needs: a service definition, and a topology or a descriptor.

    With --url Knox asks HAProxy, which follows the cluster. With --zookeeper it follows the
    instances itself, and needs the jar of `tarn lb knox jar`. Prints the files that it wrote. If
    there is a gateway secret, service.xml contains it, and only you may read that file.
    """
    context: ClientContext | None = ctx.meta.get("tarn.context")
    secret = gate(gate_file, {} if context is None else context.environ)
    made = files(_shape(urls, zookeeper, namespace), name, acl, secret)
    if dry_run:
        for path, text in made.items():
            shown = text.replace(secret, "***") if secret else text
            click.echo(f"==> {out / path} <==\n{shown}")
        return
    _write(out, made, secret=SERVICE if secret else "")
    for path in made:
        click.echo(out / path)


@knox.command("jar")
@click.option(
    "--out",
    metavar="PATH",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write it: a file, or a directory such as Knox's `lib`.",
)
def jar_command(out: Path) -> None:
    """Copy out the jar with which Knox follows the instances in ZooKeeper.

    Put it into Knox's `lib` or `ext` directory; Knox reads it at its start.
    """
    target = out / _JAR if out.is_dir() else out
    _write(target.parent, {target.name: _jar_content()})
    click.echo(target)


def _shape(urls: tuple[str, ...], zookeeper: str | None, namespace: str) -> Shape:
    if bool(urls) == bool(zookeeper):
        raise ConfigError(
            "one of --url and --zookeeper is needed, and not both",
            right="With --url Knox asks HAProxy; with --zookeeper it follows the instances itself.",
        )
    return Ensemble(zookeeper, namespace) if zookeeper else Balancers(urls)


def _write(directory: Path, made: Mapping[str, str | bytes], secret: str = "") -> None:
    """Write the files below *directory*; only this user may read the one named *secret*."""
    try:
        for path, content in made.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if path == secret:
                # a new file: one that another user could open before would keep its readers
                target.unlink(missing_ok=True)
                target.touch(0o600, exist_ok=False)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise ProviderError(
            "knox",
            f"'{directory}' cannot be written: {error.strerror}",
            next_step="Name another directory with --out.",
        ) from error


def _jar_content() -> bytes:
    """Return the jar.

    Raises:
        ProviderError: This distribution was built without it.
    """
    try:
        return (_HERE / _JAR).read_bytes()
    except FileNotFoundError as error:
        raise ProviderError(
            "knox",
            f"this installation of TARN has no {_JAR}",
            code="TARN-3310",
            next_step="In TARN's sources `nox -s knox_jar` builds it. Or compile it on Knox's own "
            f"machine: javac -proc:none -cp '/path/to/knox/dep/*:/path/to/knox/lib/*' -d classes "
            f"{_HERE / 'java/tarn/knox'}/*.java; then name tarn.knox.InstancesURLManager in "
            "classes/META-INF/services/org.apache.knox.gateway.ha.provider.URLManager, and pack "
            f"it: jar cf {_JAR} -C classes .",
        ) from error
