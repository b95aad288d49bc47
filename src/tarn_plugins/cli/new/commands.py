"""`tarn new model`."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import click

from tarn.errors import ConfigError, RefusedError
from tarn_plugins.cli.new.signature import kind_of, named, signature_of
from tarn_plugins.cli.new.templates import NewModel

__all__ = ["new"]

_HELP = {"help_option_names": ["-h", "--help"]}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@click.group(context_settings=_HELP)
def new() -> None:
    """Write the first files of something."""


@new.command("model", context_settings=_HELP)
@click.argument("name")
@click.option(
    "--from",
    "source",
    metavar="FILE|python",
    default="python",
    show_default=True,
    help="What the model runs: an ONNX, TorchScript (.pt) or scikit-learn (.joblib) file, which is "
    "copied; or python, a program to change.",
)
@click.option(
    "--repository",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("models"),
    show_default=True,
    help="The model repository; it is made if it does not exist.",
)
@click.option(
    "--for",
    "triton",
    type=click.Choice(["wheel", "image"]),
    default="wheel",
    show_default=True,
    help="Which Triton serves it: that of the Python package, which runs Python only, or NVIDIA's "
    "image, which runs ONNX and TorchScript files by itself.",
)
@click.option(
    "--input",
    "inputs",
    metavar="NAME:TYPE:DIMS",
    multiple=True,
    help="An input, as in IN:FP32:-1,3, where the file does not say it; may be repeated.",
)
@click.option(
    "--output",
    "outputs",
    metavar="NAME:TYPE:DIMS",
    multiple=True,
    help="An output; may be repeated.",
)
def model(  # noqa: PLR0913 (one for each option)
    *,
    name: str,
    source: str,
    repository: Path,
    triton: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Write a model into a repository, with a request to try."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"'{name}' is no name of a model",
            where="NAME",
            right="Expected letters, digits, '_', '.' and '-', with a letter or digit first",
        )
    tensors = named(inputs, "--input"), named(outputs, "--output")
    made = NewModel(name, kind_of(source), signature_of(source, *tensors), triton == "wheel")
    folder = repository / name
    _write(made, source, folder)
    for path in sorted((*made.texts(), *filter(None, (made.file,)))):
        click.echo(f"{folder / path}")
    needs = f" It needs the Python package {made.needs} where Triton runs." if made.needs else ""
    click.echo(
        f"Model '{name}' is written.{needs}\n"
        f"Check it: tarn lint {repository}\n"
        f"Serve it: tarn up -c {name} --set models={repository}\n"
        f"Try it:   tarn verify -c {name} --input {folder / 'request.json'}",
        err=True,
    )


def _write(made: NewModel, source: str, folder: Path) -> None:
    """Write the model as a whole, or nothing.

    Raises:
        RefusedError: *folder* exists.
    """
    if os.path.lexists(folder):
        raise RefusedError(
            f"'{folder}' exists already",
            where="NAME",
            next_step="Choose another name, or remove it first",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Triton takes no folder whose name begins with a dot for a model.
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as place:
        root = Path(place) / folder.name
        for path, text in made.texts().items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")
        if made.file:
            (root / made.file).parent.mkdir(exist_ok=True)
            shutil.copyfile(source, root / made.file)
        root.rename(folder)
