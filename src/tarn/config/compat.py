"""A command line of the Java TARN as the ``tarn.yaml`` that means the same."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarn.config import commandline
from tarn.config.aliases import by_name
from tarn.config.loading import LoadedSpec, load
from tarn.config.offers import COMING_KEYS
from tarn.config.readings import text_of
from tarn.config.showing import dump
from tarn.errors import ConfigErrors
from tarn.plain import MASK, join, masked, redact

__all__ = ["translate"]

_JAVA = {
    "models": {"repository": "hdfs:///models"},
    "runtime": {"use": "yarn"},
    "scaling": {"use": "threshold"},
}
"""What the Java TARN did unasked, and we do not."""
_UNASKED = "the Java TARN's default"
_GPUS = "instance.resources.gpus"
_PLACEHOLDER = re.compile(r"\[[\w .-]+\]|<[\w .-]+>")
_NOTHING = object()


def translate(words: Sequence[str], coming: Mapping[tuple[str, str], str]) -> str:
    """Return the text of a ``tarn.yaml`` that means what the command in *words* meant.

    The environment of this process plays no part; that of the command (``NAME=VALUE`` words
    before it) does. What a later part brings is translated, with a comment that names the part.
    No api token and no value under a secret name is ever in the text.

    Args:
        words: The command, word by word; `tarn.config.commandline.split` makes them of a text.
        coming: (kind, name) of each provider that is not here yet, to the part that brings it.

    Raises:
        ConfigErrors: It is not a command of the Java TARN, or it asks for what no version of ours
            has: every error at once.
    """
    command = commandline.read(words)
    options = dict(command.options)
    head = list(command.notes)
    head += _dropped(options)
    for key, part in _without_a_key(options):
        head.append(f"--{key} comes with the part {part}; there is no key for it yet")
    loaded = _loaded(options, command.environ)
    head += (note for note in loaded.notes if "arguments" not in note)
    plain, comments = _written(loaded)
    _token(loaded, plain, comments, head)
    _secrets(plain, comments)
    _parts(loaded, plain, comments, coming)
    lines = [f"# {line}" for line in head]
    return "\n".join((*lines, *_lines(plain, comments, "", 0))) + "\n"


def _loaded(options: Mapping[str, object], environ: Mapping[str, str]) -> LoadedSpec:
    """Read everything; the name is that of a folder which is not known yet."""
    try:
        return load({"name": "any", **_JAVA}, aliases=options, environ=environ)
    except ConfigErrors as errors:
        for error in errors.errors:
            if error.where.startswith("argument: "):
                error.where = "command"
        raise


def _dropped(options: dict[str, object]) -> Iterator[str]:
    """Take out what was written and says nothing; yield a line for each."""
    for key, value in list(options.items()):
        if value == "":
            del options[key]
            yield f"--{key} is empty, which the Java TARN took as not given"
        elif isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
            del options[key]
            yield f"--{key} {value}: left out, a placeholder"


def _without_a_key(options: dict[str, object]) -> Iterator[tuple[str, str]]:
    for key in list(options):
        if by_name[key].part not in ("", "-"):
            del options[key]
            yield key, by_name[key].part


def _written(loaded: LoadedSpec) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what is not a default of ours, and a comment for what nobody asked for."""
    comments: dict[str, str] = {}

    def kept(value: Any, path: str) -> Any:
        if isinstance(value, dict) and value:
            inside = {key: kept(item, join(path, key)) for key, item in value.items()}
            inside = {key: item for key, item in inside.items() if item is not _NOTHING}
            return inside or _NOTHING
        if isinstance(value, list) and value:
            listed = [kept(item, join(path, index)) for index, item in enumerate(value)]
            return [item for item in listed if item is not _NOTHING] or _NOTHING
        origin = loaded.origins.get(path, "default")
        if path == _GPUS and origin == "default":
            comments[path] = _UNASKED
            return 1
        if value == {} or origin in ("default", "argument: name"):
            return _NOTHING
        if origin.startswith("argument: ") and path != "runtime.use":
            comments[path] = _UNASKED
        return value

    plain = kept(dump(loaded.spec), "")
    return plain, comments


def _token(
    loaded: LoadedSpec, plain: dict[str, Any], comments: dict[str, str], head: list[str]
) -> None:
    if loaded.api_token is not None:
        plain.setdefault("api", {})["token"] = "env:TARN_TOKEN"  # noqa: S105 (where it is)
        comments["api.token"] = (
            "the token is not written into the file: export TARN_TOKEN before `tarn up`"
        )
    else:
        head.append(
            "without --token the Java TARN let everybody in; here a token is generated "
            "(`api: {token: none}` turns that off)"
        )


def _secrets(plain: dict[str, Any], comments: dict[str, str]) -> None:
    """Mask what has a secret name in Triton's environment, and passwords in any URL."""
    environ = plain.get("triton", {}).get("env", {})
    for name, value in redact(environ, free=True).items():  # type: ignore[attr-defined]
        if value == MASK:
            environ[name] = value
            comments[join("triton.env", name)] = (
                "a secret is not written into the file: put it into a secret store, or write it "
                "here"
            )

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(item) for key, item in value.items()}
        if isinstance(value, list):
            return [shown(item) for item in value]
        return masked(value) if isinstance(value, str) else value

    plain |= shown(plain)


def _parts(
    loaded: LoadedSpec,
    plain: dict[str, Any],
    comments: dict[str, str],
    coming: Mapping[tuple[str, str], str],
) -> None:
    """Name the part that brings what this version lacks."""
    spec = loaded.spec
    chosen = {
        "runtime.use": ("runtime", spec.runtime.use),
        "authorizer.use": ("authorizer", spec.authorizer.use),
        "scaling.use": ("scaling", spec.scaling.use),
    }
    for index, discovery in enumerate(spec.discovery):
        chosen[f"discovery[{index}].use"] = ("discovery", discovery.use)
    for index, store in enumerate(spec.secrets):
        chosen[f"secrets[{index}].use"] = ("secrets", store.use)
    parts = {path: coming[offer] for path, offer in chosen.items() if offer in coming}
    parts |= {path: part for path, part in COMING_KEYS.items() if _has(plain, path)}
    for path, part in parts.items():
        said = [comments[path]] if path in comments else []
        comments[path] = "; ".join((*said, f"comes with the part {part}"))


def _has(plain: Any, path: str) -> bool:
    for key in path.split("."):
        plain = plain.get(key) if isinstance(plain, dict) else None
    return plain is not None


def _lines(plain: Any, comments: Mapping[str, str], path: str, depth: int) -> Iterator[str]:
    """Yield block-style YAML; a comment stands behind its key."""
    pairs = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in pairs:
        at = join(path, key)
        start = "  " * depth + (f"{_scalar(key)}:" if isinstance(plain, dict) else "-")
        remark = f"  # {comments[at]}" if at in comments else ""
        if not isinstance(value, dict | list) or not value:
            yield f"{start} {_scalar(value)}{remark}"
        elif isinstance(plain, list) and isinstance(value, dict):
            first, *others = _lines(value, comments, at, depth + 1)
            yield "  " * depth + f"- {first.lstrip()}"
            yield from others
        else:
            yield start + remark
            yield from _lines(value, comments, at, depth + 1)


def _scalar(value: object) -> str:
    text = text_of(value, flow=True)
    return text.removesuffix("\n").removesuffix("\n...")
