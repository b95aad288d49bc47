"""Checks whether the tritonserver of this machine can serve a repository's models."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.interfaces import Finding
from tarn.interfaces.lint import Flaw, Model, Node
from tarn.triton import response_cache
from tarn.triton.binary import Wheel, locate, unloadable
from tarn.triton.lint import backend_of, scan
from tarn.triton.lint.pbtxt import Broken, read

__all__ = ["Backends", "backends_of", "here", "misfits", "ways_out"]

_BUILT_IN = frozenset({"ensemble"})
_OPTION = "backend-directory"


@attrs.frozen
class Backends:
    """The back ends of one tritonserver."""

    server: str
    """The name of the server, for people."""
    names: frozenset[str]

    def lacks(self, model: Model) -> str:
        """Return the back end that *model* needs and the server lacks; empty if there is none."""
        backend = backend_of(model)
        if not backend or backend in self.names | _BUILT_IN:
            return ""
        library = f"libtriton_{backend}.so"  # a model may bring its own
        places = ("", *(f"{version}/" for version in model.versions))
        return "" if any(model.find(f"{place}{library}") for place in places) else backend

    def without(self, model: str, backend: str) -> str:
        """Return the text about a missing *backend*."""
        have = ", ".join(sorted(self.names)) or "none"
        return f"{model} needs the back end '{backend}', but {self.server} has only: {have}"


def ways_out(backend: str) -> str:
    """Return what a person can do about a missing *backend*."""
    python = {"onnxruntime": "onnxruntime", "pytorch": "torch", "tensorflow": "tensorflow"}
    package = python.get(backend, "")
    rest = f", or call the package {package} in a Python model" if package else ""
    return f"Set triton.binary to a tritonserver that has it, use an image of NVIDIA's{rest}"


def backends_of(
    binary: str | None, args: Mapping[str, object], environ: Mapping[str, str]
) -> Backends | None:
    """Return the back ends of the tritonserver that would be started; None if unknown."""
    try:
        program = locate(binary, environ)
    except LaunchError:
        return None  # `tarn.triton.binary.check` reports it
    given = next((v for k, v in args.items() if k.strip("-").replace("_", "-") == _OPTION), None)
    if isinstance(program, Wheel):
        server = f"Triton of the wheel nvidia-pytriton {program.version}"
        folders = [program.backend.parent]
    else:
        server = program
        folders = [
            Path(program).resolve().parents[1] / "backends",
            Path("/opt/tritonserver/backends"),
        ]
    if given is not None:
        folders = [Path(str(each)) for each in (given if isinstance(given, list) else [given])]
    names = [_listed(folder) for folder in folders]
    if not any(names):
        return None
    return Backends(server, frozenset().union(*names))


def here(spec: ClusterSpec, environ: Mapping[str, str]) -> Backends | None:
    """Return the back ends of the tritonserver that *spec* starts on this machine."""
    return backends_of(spec.triton.binary, spec.triton.args, environ)


def _listed(folder: Path) -> frozenset[str]:
    try:
        return frozenset(entry.name for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return frozenset()


def misfits(location: str, spec: ClusterSpec, backends: Backends | None) -> Iterator[Finding]:
    """Yield what keeps the tritonserver of *backends* from serving the models at *location*.

    If only some models are affected, it is a note, unless the spec requires all models.

    Raises:
        OSError: The repository cannot be listed.
    """
    found = scan(Path(location), location, _parsed).models
    models = [model for model in found if not spec.models.serve or model.name in spec.models.serve]
    yield from _unsafe(location, models)
    yield from response_cache.unused(location, spec, models)
    if backends is None:
        return
    missing = {model.name: lack for model in models if (lack := backends.lacks(model))}
    fatal = len(missing) == len(models) or spec.models.require == "all"
    for backend in sorted(set(missing.values())):
        names = [f"'{name}'" for name, lack in missing.items() if lack == backend]
        named = f"model {names[0]}" if len(names) == 1 else f"each of {', '.join(names)}"
        said = backends.without(named, backend)
        yield Finding("TARN-3115", location, said, ways_out(backend), fatal=fatal)


def _unsafe(location: str, models: Sequence[Model]) -> Iterator[Finding]:
    """Yield a path that the Python back end cannot load from, if a model needs that."""
    signs = unloadable(Path(location))
    if signs and any(backend_of(model) == "python" for model in models):
        yield Finding(
            "TARN-2205",
            f"models.repository = '{location}'",
            f"has {signs} in its path, and Triton's Python back end cannot load a model from "
            "such a path",
            "Rename the folder, or name a link to it without such characters (ln -s)",
        )


def _parsed(text: str) -> tuple[Node | None, tuple[Flaw, ...]]:
    try:
        return read(text), ()
    except Broken as broken:
        return None, (broken.flaw,)
