"""The files that Triton's back ends expect in a version directory.

Source: each back end's README, and ``AutoCompleteBackendFields`` of Triton's core, which guesses
the back end from the file if the configuration has neither ``backend`` nor ``platform``.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from tarn.interfaces.lint import Model, Node, Repository

__all__ = [
    "BACKENDS",
    "FOREST_FILES",
    "PLATFORMS",
    "Backend",
    "Stubs",
    "backend_of",
    "completes_itself",
    "file_of",
    "nearest",
    "served_versions",
    "stubs",
]


@attrs.frozen
class Backend:
    """One back end."""

    files: tuple[str, ...] = ()
    """The default model file or directory; of several, any one; empty if none is needed."""
    guessed: bool = False
    """Whether Triton recognises the file, so that no configuration is needed."""


FOREST_FILES: Mapping[str, str] = MappingProxyType(
    {
        "xgboost": "xgboost.model",
        "xgboost_json": "xgboost.json",
        "xgboost_ubj": "xgboost.ubj",
        "lightgbm": "model.txt",
        "treelite_checkpoint": "checkpoint.tl",
    }
)
"""The file that FIL loads for its parameter ``model_type``; by default the first."""

BACKENDS: Mapping[str, Backend] = MappingProxyType(
    {
        "dali": Backend(("model.dali", "dali.py")),
        "ensemble": Backend(),
        "fil": Backend(tuple(FOREST_FILES.values())),
        "identity": Backend(),
        "onnxruntime": Backend(("model.onnx",), guessed=True),
        "openvino": Backend(("model.xml", "model.onnx"), guessed=True),
        "python": Backend(("model.py",), guessed=True),
        "pytorch": Backend(("model.pt",), guessed=True),
        "repeat": Backend(),
        "square": Backend(),
        "tensorflow": Backend(("model.savedmodel", "model.graphdef"), guessed=True),
        "tensorrt": Backend(("model.plan",), guessed=True),
        "tensorrtllm": Backend(),
        "vllm": Backend(("model.json",)),
    }
)  # fmt: skip
"""The back ends in NVIDIA's containers; there may be others."""

PLATFORMS: Mapping[str, str] = MappingProxyType(
    {
        "ensemble": "ensemble",
        "onnxruntime_onnx": "onnxruntime",
        "openvino": "openvino",
        "pytorch_libtorch": "pytorch",
        "tensorflow_graphdef": "tensorflow",
        "tensorflow_savedmodel": "tensorflow",
        "tensorrt_plan": "tensorrt",
    }
)
"""The back end for the older key ``platform``."""

_AUTO = b"auto_complete_config"
_OF_PLATFORM = {
    "tensorflow_graphdef": "model.graphdef",
    "tensorflow_savedmodel": "model.savedmodel",
}


def backend_of(model: Model) -> str:
    """Return the back end that Triton will choose; empty if it cannot know."""
    root = model.root
    if root.first("ensemble_scheduling") is not None:
        return "ensemble"
    written = root.text("backend") or PLATFORMS.get(root.text("platform"), "")
    return written or _guess(model)


def file_of(model: Model, backend: str) -> tuple[str, ...]:
    """Return the model files of which each version must have one; empty if it needs none."""
    root = model.root
    named = root.text("default_model_filename")
    known = BACKENDS.get(backend)
    if backend == "pytorch" and root.first("runtime") is not None:
        return ()  # the PyTorch 2 platform runs a model.py, and may load what it likes
    by_gpu = tuple(entry.text("value") for entry in root.all("cc_model_filenames"))
    if (named or by_gpu) and (known is None or known.files):
        return (named, *by_gpu) if named else by_gpu + (known.files if known else ())
    if backend == "fil":
        entry = root.pairs("parameters").get("model_type")
        kind = entry.text("value", "string_value") if entry else "xgboost"
        return (FOREST_FILES[kind],) if kind in FOREST_FILES else known.files if known else ()
    if root.text("platform") in _OF_PLATFORM:
        return (_OF_PLATFORM[root.text("platform")],)
    return known.files if known else ()


def _guess(model: Model) -> str:
    held = {entry.name for version in model.versions for entry in model.at(version)}
    for name, backend in BACKENDS.items():
        if backend.guessed and held & set(backend.files):
            return name
    _, dot, ending = model.name.rpartition(".")
    return ending if dot and not model.is_readable else ""


def completes_itself(repository: Repository, model: Model) -> bool:
    """Return whether Triton may find more inputs and outputs than the configuration names."""
    if backend_of(model) != "python":
        return True  # most other back ends read them from the model's file
    file = model.root.text("default_model_filename") or "model.py"
    codes = [repository.read(f"{model.name}/{each}/{file}") for each in served_versions(model)]
    return any(not code or _AUTO in code for code in codes)


def served_versions(model: Model, there: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the versions that Triton will load: those of ``version_policy``, else the highest.

    *there* are the versions to choose from, in the order of their numbers; by default the model's.
    """
    there = model.versions if there is None else there
    policy = model.root.first("version_policy")
    if policy is None:
        return there[-1:]
    if policy.first("all") is not None:
        return there
    specific = policy.first("specific")
    if specific is not None:
        named = {node.value for node in specific.all("versions")}
        return tuple(version for version in there if version in named)
    most = policy.number("latest", "num_versions", default=1)
    return there[-most:] if most > 0 else ()


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name in *known* that is probably meant by *name*; empty if there is none.

    Case and underscores are ignored (``MaxBatchSize``), and a prefix such as ``TYPE_`` or ``KIND_``
    may be missing.
    """
    names = {_plain(each): each for each in known}
    plain = _plain(name)
    if plain in names:
        return names[plain]
    ending = [each for short, each in names.items() if short.endswith(plain) and len(plain) > 1]
    if ending:
        return min(ending, key=len)
    return next((names[each] for each in difflib.get_close_matches(plain, names, n=1)), "")


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


# Triton's default without ``instance_group``: a copy for each GPU, or one.
_NO_GROUP = Node("", 1, 1, 0, 0)
_NEVER_GPU = frozenset({"KIND_CPU", "KIND_MODEL"})


@attrs.frozen
class Stubs:
    """The copies of one Python model in one server."""

    model: str
    fixed: int = 0
    """Copies that do not depend on the container's GPUs."""
    per_gpu: int = 0
    """Copies for each GPU of the container; once if it has none."""

    def on(self, gpus: int) -> int:
        """Return the number of copies with *gpus* GPUs."""
        return self.fixed + self.per_gpu * max(1, gpus)


def stubs(models: Iterable[Model]) -> Iterator[Stubs]:
    """Yield the copies of each model that the Python back end will run."""
    for model in models:
        if backend_of(model) != "python":
            continue
        fixed = per_gpu = 0
        for group in model.root.all("instance_group") or (_NO_GROUP,):
            count = max(1, group.number("count", default=1))
            places = len(group.all("gpus")) or int(group.text("kind") in _NEVER_GPU)
            if places:
                fixed += count * places
            else:  # on each GPU of the container
                per_gpu += count
        yield Stubs(model.name, fixed, per_gpu)
