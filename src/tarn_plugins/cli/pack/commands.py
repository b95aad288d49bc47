"""`tarn pack`."""

import contextlib
import errno
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from tarn.errors import ProviderError, RefusedError
from tarn.interfaces import ClientContext, Progress, Uploader
from tarn.java import mask
from tarn.triton.folders import private_folder
from tarn_plugins.cli.pack import options as pack_options
from tarn_plugins.cli.pack.options import DEFAULT_GLIBC, DEFAULT_PYTHON, PackOptions

__all__ = ["pack"]

_ENDS = (".tar.gz", ".tgz")
# Without a spec: no plugins, and the runtime whose nodes need an archive.
_NO_SPEC: tuple[frozenset[str], str, Mapping[str, object]] = frozenset(), "yarn", {}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("target", metavar="[FILE|DIRECTORY|URI]", default=".")
@click.option(
    "-f",
    "--file",
    "spec",
    type=click.Path(path_type=Path, exists=True),
    help="The spec whose plugins are packed. [default: ./tarn.yaml where there is one]",
)
@click.option(
    "--python",
    default=DEFAULT_PYTHON,
    show_default=True,
    metavar="VERSION|DIRECTORY",
    help="The interpreter: a version for uv to download, or the directory of one that runs from "
    "anywhere.",
)
@click.option(
    "--glibc",
    default=DEFAULT_GLIBC,
    show_default=True,
    metavar="VERSION",
    help="The oldest C library among the nodes; `ldd --version` on a node shows it.",
)
@click.option(
    "--extra",
    "extras",
    multiple=True,
    metavar="NAME",
    help="Also pack tarn-orchestrator[NAME]; may be repeated.",
)
@click.option(
    "--with",
    "requirements",
    multiple=True,
    metavar="REQUIREMENT",
    help="Also pack this package, such as a plugin, or one that models import; may be repeated.",
)
@click.option(
    "--java",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Also pack a Java, from this JDK or JRE: for nodes with Java 8.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be packed, but do nothing.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)
@click.pass_context
def pack(  # noqa: PLR0913 (one for each option)
    ctx: click.Context,
    *,
    target: str,
    spec: Path | None,
    python: str,
    glibc: str,
    extras: tuple[str, ...],
    requirements: tuple[str, ...],
    java: str | None,
    dry_run: bool,
    form: str,
) -> None:
    """Pack the Python environment of the nodes as one archive.

    It contains an interpreter, exactly this tarn, what the spec's plugins need, and with --java a
    Java. Everything is checked against --glibc, and started once from another directory. In a
    DIRECTORY the archive is named by its content; use a URI (hdfs:///envs/) that the nodes can
    read. An archive that is already there is not copied again.
    """
    from tarn_plugins.cli.pack.java import version  # noqa: PLC0415

    usual = Path("tarn.yaml")
    path = spec or (usual if usual.is_file() else None)
    needed, *runtime = ctx.meta["tarn.needs"](path) if path else _NO_SPEC
    order = PackOptions(
        python=pack_options.python(python),
        glibc=pack_options.glibc(glibc),
        extras=tuple(sorted({"yarn", *needed, *extras})),
        requirements=requirements,
        java=java or "",
        machine=platform.machine(),
    )
    if java:
        version(Path(java))
    place = _ArchiveTarget(target, lambda: ctx.meta["tarn.deployer"](*runtime))
    if dry_run:
        _print(_dry(order, target), form)
        return
    _print(_packed(order, place, ctx.meta["tarn.context"]), form)


class _ArchiveTarget:
    """Where the archive goes.

    Args:
        target: What the user named.
        deployer: Makes the client side of the runtime; called for a URI only.

    Raises:
        ProviderError: The archive cannot be written there (TARN-3198).
    """

    def __init__(self, target: str, deployer: Callable[[], Any]) -> None:
        self._target, self._carrier = target, None
        self.is_uri = "://" in target
        self._whole = target.lower().endswith(_ENDS)
        if self.is_uri:
            carrier = deployer()
            if not isinstance(carrier, Uploader):
                raise _not_writable(
                    target, "the spec's runtime does not copy anything to other machines"
                )
            self._carrier = carrier
        elif not os.access(self._folder, os.W_OK | os.X_OK):
            missing = not self._folder.is_dir()
            found = "there is no such directory" if missing else "it may not be written"
            raise _not_writable(str(self._folder), found)

    @property
    def _folder(self) -> Path:
        path = Path(self._target)
        return (path.parent if self._whole else path).resolve()

    def take(self, made: Path, name: str) -> tuple[str, bool]:
        """Copy the archive there; return its place, and whether it already existed."""
        if self._carrier is not None:
            uri = self._target if self._whole else f"{self._target.rstrip('/')}/{name}"
            return self._carrier.put(made, uri)
        path = Path(self._target).resolve() if self._whole else self._folder / name
        if path.exists():
            if path.is_file() and _equal(path, made):
                return str(path), True
            raise RefusedError(
                "there is another file of this name",
                code="TARN-3198",
                where=str(path),
                next_step="Remove it, or name a directory: its content then names the archive.",
            )
        _moved(made, path)
        return str(path), False


def _packed(order: PackOptions, place: _ArchiveTarget, context: ClientContext) -> dict[str, Any]:
    from tarn_plugins.cli.pack import recipe  # noqa: PLC0415
    from tarn_plugins.cli.pack.uv import Uv, found  # noqa: PLC0415

    def say(message: str) -> None:
        context.progress(Progress("packing", message))

    began_s = time.monotonic()
    cache = context.paths.cache
    uv = Uv(found(context.environ), context.environ, cache / "pythons", say)
    with _disk(str(cache)), contextlib.ExitStack() as stack:
        private_folder(cache)
        temporary = tempfile.TemporaryDirectory(
            prefix="pack-", dir=cache, ignore_cleanup_errors=True
        )
        made = recipe.make(order, uv, Path(stack.enter_context(temporary)), say)
        say(f"copying {made.bytes / 2**20:.1f} MiB to the destination")
        where, there = place.take(made.path, made.name)
        return {
            "archive": where,
            "already_there": there,
            "bytes": made.bytes,
            "files": made.written.files,
            "unpacked_bytes": made.written.unpacked,
            "sha256_of_content": made.written.digest,
            **made.about,
            "nodes_need": list(made.foreign),
            "seconds": round(time.monotonic() - began_s, 1),
            "setting": {"runtime": {"options": {"python": where}}},
        }


@contextlib.contextmanager
def _disk(where: str) -> Iterator[None]:
    """Raise an ``OSError`` of the file system as a ``ProviderError`` (TARN-3198)."""
    try:
        yield
    except OSError as error:
        found = f"{error.filename or where}: {error.strerror or error}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        step = "Free some space." if full else "Name another place."
        raise ProviderError("pack", found, code="TARN-3198", next_step=step) from error


def _moved(made: Path, path: Path) -> None:
    """Copy the file *made* to *path*, whole or not at all."""
    # Copied next to *path* first: a rename from another file system would fail.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with made.open("rb") as source, part.open("xb") as copy:
            while chunk := source.read(1 << 20):
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _equal(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while chunk := first.read(1 << 20):
            if chunk != second.read(1 << 20):
                return False
    return True


def _not_writable(where: str, found: str) -> ProviderError:
    return ProviderError(
        "pack", found, code="TARN-3198", where=where, next_step="Name another place."
    )


def _dry(order: PackOptions, target: str) -> dict[str, Any]:
    from importlib.metadata import distribution  # noqa: PLC0415

    from tarn.release import DISTRIBUTION  # noqa: PLC0415
    from tarn_plugins.cli.pack.uv import origin  # noqa: PLC0415

    version, url = origin(distribution(DISTRIBUTION))
    return {
        "target": target,
        "python": order.python,
        "glibc": ".".join(map(str, order.glibc)),
        "platform": pack_options.platform(order),
        "tarn": version,
        "from": mask(url) or "the package index",
        "extras": list(order.extras),
        "with": [mask(one) for one in order.requirements],
        "java": order.java or None,
    }


def _print(told: Mapping[str, Any], form: str) -> None:
    if form == "json":
        click.echo(json.dumps(told, indent=2))
    elif form == "yaml":
        click.echo(yaml.safe_dump(dict(told), sort_keys=False).rstrip("\n"))
    else:
        click.echo("\n".join(_lines(told)))


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    if "archive" not in told:
        for key, value in told.items():
            shown = " ".join(value) if isinstance(value, list) else value
            yield f"{key:10}{shown or '-'}"
        return
    was = " (was there already)" if told["already_there"] else ""
    yield f"{told['archive']}{was}"
    yield (
        f"{told['bytes'] / 2**20:.1f} MiB, {told['unpacked_bytes'] / 2**20:.1f} MiB in "
        f"{told['files']:,} files unpacked, made in {told['seconds']:g} s"
    )
    java = f", Java {told['java']}" if told["java"] else ""
    yield (
        f"tarn {told['tarn']}, Python {told['python']}{java}, {len(told['packages'])} packages; "
        f"needs glibc {told['glibc_needed']} on {told['machine']}"
    )
    if told["nodes_need"]:
        yield f"the nodes must have: {' '.join(told['nodes_need'])}"
    yield "for tarn.yaml:"
    yield yaml.safe_dump(told["setting"], sort_keys=False).rstrip("\n")
