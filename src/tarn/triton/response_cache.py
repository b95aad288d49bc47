"""Triton's response cache: its options, the servers that have one, and the models that use it.

Since 23.03 (2.32) tritonserver loads a cache as a shared library, by default
``/opt/tritonserver/caches/local/libtritoncache_local.so``. An instance then keeps answers of models
whose configuration has ``response_cache { enable: true }``, and gives them again for equal inputs
without computing. Each instance has a cache of its own, which all of its models share; the answers
that were unused for longest give way. Only answers in CPU memory are kept, and none of models with
``sequence_batching`` or decoupled ones: Triton does not load such a model with a response cache.

Source: Triton ``docs/user_guide/response_cache.md``; ``model_config_utils.cc`` of its core;
``README.md`` and ``local_cache.cc`` of its local cache. Checked on Triton 2.51, which has the
counters of such a model also without a cache; they stay at 0.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tarn.domain import ClusterSpec
from tarn.domain.spec import CacheSpec, TritonSpec
from tarn.errors import LaunchError
from tarn.interfaces import Finding
from tarn.interfaces.lint import Model
from tarn.triton.binary import Wheel, locate

__all__ = [
    "CONFIG_OPTION",
    "FOLDER_OPTION",
    "findings",
    "image_findings",
    "is_configured",
    "is_true",
    "options",
    "server_findings",
    "unused",
    "uses_cache",
]

CONFIG_OPTION, FOLDER_OPTION = "cache-config", "cache-directory"
# The name that this option had before 23.03; Triton still accepts it.
_OLD_OPTION = "response-cache-byte-size"
_LOCAL = "local"
_LIBRARY = f"{_LOCAL}/libtritoncache_{_LOCAL}.so"
# Where tritonserver looks unless it is told.
_DEFAULT_FOLDER = Path("/opt/tritonserver/caches")
# The release of NVIDIA's images with the first loadable cache.
_FIRST_IMAGE = (23, 3)
_IMAGE = re.compile(r"(?:.*/)?tritonserver:(\d\d)\.(\d\d)(?:\D.*)?")
_BYTES_IN_MIB = 1 << 20


def options(cache: CacheSpec | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the option of tritonserver (name, values) for *cache*."""
    if cache is not None:
        yield CONFIG_OPTION, (f"{_LOCAL},size={cache.size_mib * _BYTES_IN_MIB}",)


def is_configured(triton: TritonSpec) -> bool:
    """Say whether instances have a response cache, by ``triton.cache`` or ``triton.args``."""
    return triton.cache is not None or any(_set_by_hand(triton.args))


def _set_by_hand(args: Mapping[str, object]) -> Iterator[str]:
    """Yield the keys of ``triton.args`` that configure a cache."""
    for raw, value in args.items():
        if _name(raw) in (CONFIG_OPTION, _OLD_OPTION) and value is not None:
            yield raw


def _name(raw: str) -> str:
    return raw.lstrip("-").replace("_", "-")


def findings(triton: TritonSpec) -> Iterator[Finding]:
    """Yield each option in ``triton.args`` that contradicts ``triton.cache``."""
    if triton.cache is None:
        return
    for raw in _set_by_hand(triton.args):
        yield Finding(
            "TARN-2003",
            f"triton.args.{raw}",
            "is given together with triton.cache, and Triton has one cache only",
            "Remove one of the two; triton.cache is the cache in an instance's own memory",
        )


def server_findings(triton: TritonSpec, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield why the tritonserver of this machine cannot have the cache of ``triton.cache``."""
    if triton.cache is None:
        return
    try:
        program = locate(triton.binary, environ)
    except LaunchError:
        return  # `tarn.triton.binary.check` reports it
    given = [value for raw, value in triton.args.items() if _name(raw) == FOLDER_OPTION and value]
    if isinstance(program, Wheel):
        server, folder = (
            f"the Triton of the wheel nvidia-pytriton {program.version}",
            program.caches,
        )
    else:
        server, folder = program, _DEFAULT_FOLDER
    folder = Path(str(given[-1])) if given else folder
    if not (folder / _LIBRARY).exists():
        yield Finding(
            "TARN-3116",
            "triton.cache",
            f"{server} has no response cache: there is no {_LIBRARY} in {folder}",
            "Use a tritonserver of 23.03 or newer, name the folder in triton.args "
            f"{FOLDER_OPTION}, or remove triton.cache",
            # Another program may be a script that names its folder itself.
            fatal=bool(given) or isinstance(program, Wheel),
        )


def image_findings(triton: TritonSpec) -> Iterator[Finding]:
    """Yield why the image cannot have the cache of ``triton.cache``, as far as its tag tells."""
    found = _IMAGE.fullmatch(triton.image)
    if triton.cache is None or found is None:
        return
    if (int(found[1]), int(found[2])) < _FIRST_IMAGE:
        yield Finding(
            "TARN-3116",
            f"triton.image = '{triton.image}'",
            "is from before 23.03, whose Triton does not know --cache-config and would not start",
            "Name an image of 23.03 or newer, or remove triton.cache",
        )


def uses_cache(model: Model) -> bool:
    """Say whether the configuration of *model* asks Triton to keep its answers."""
    return is_true(model.root.text("response_cache", "enable"))


def is_true(text: str) -> bool:
    """Say whether *text*, a value in a configuration, is true for protobuf's parser."""
    return text.lower() in ("true", "t", "1")


def unused(location: str, spec: ClusterSpec, models: Iterable[Model]) -> Iterator[Finding]:
    """Yield notes about models without a cache, and about a cache without models."""
    using = [model.name for model in models if uses_cache(model)]
    configured = is_configured(spec.triton)
    if using and not configured:
        names = ", ".join(f"'{name}'" for name in using[:3]) + (", …" if using[3:] else "")
        yield Finding(
            "TARN-2347",
            location,
            f"{names}: response_cache is enabled, but no answer is kept, since the spec has no "
            "triton.cache",
            "Set triton.cache, such as {size: 256MiB}, or remove response_cache",
            fatal=False,
        )
    elif spec.triton.cache is not None and not using:
        yield Finding(
            "TARN-2348",
            "triton.cache",
            f"takes {spec.triton.cache.size_mib} MiB of each instance, but no model in {location} "
            "has response_cache { enable: true }",
            "Enable it in the config.pbtxt of a model, or remove triton.cache",
            fatal=False,
        )
