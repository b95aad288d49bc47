"""Paths that are written relative, made absolute before anybody else reads them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import attrs

from tarn.config.draft import Draft
from tarn.plain import key_of

__all__ = ["make_absolute", "options_absolute"]

_PATHS = (
    "models.repository",
    "triton.binary",
    "update.smoke",
    "api.tls.cert",
    "api.tls.key",
    "api.tls.client_ca",
    "api.tls.keystore",
    "api.tls.ca",
    "api.spnego.keytab",
)
_FILE = "file:"


def make_absolute(draft: Draft, folder: Path, here: Path, home: str) -> None:
    """Make the spec's own relative paths absolute.

    What a file says starts at *folder*, the file's; what an argument or the environment says
    starts at *here*, as in any command. A URI stays as it is.
    """
    for path in _PATHS:
        value = draft.get(path)
        if isinstance(value, str):
            _replace(draft, path, _absolute(value, _start(draft, path, folder, here), home))
    token = draft.get("api.token")
    if isinstance(token, str) and token.startswith(_FILE) and token != _FILE:
        start = _start(draft, "api.token", folder, here)
        _replace(draft, "api.token", _FILE + _absolute(token.removeprefix(_FILE), start, home))


def _start(draft: Draft, path: str, folder: Path, here: Path) -> Path:
    ours = draft.origin(path).startswith(("argument", "environment"))
    return here if ours else folder


def _replace(draft: Draft, path: str, value: str) -> None:
    if value != draft.get(path):
        draft.put(tuple(path.split(".")), value, draft.origin(path))


def _absolute(text: str, start: Path, home: str) -> str:
    """Return the path *text* from *start*; a URI, or nothing, as it is."""
    if not text or "://" in text or text.startswith("/"):
        return text
    if home and (text == "~" or text.startswith("~/")):
        return os.path.normpath(home + text[1:])
    return os.path.normpath(start / text)


def options_absolute(
    options: Mapping[str, Any], settings: type[Any], start: Path, home: str
) -> dict[str, Any]:
    """Return *options* with the paths among them absolute, also in classes within *settings*."""
    kinds = _kinds(settings)
    return {key: _made(value, kinds.get(key), start, home) for key, value in options.items()}


def _kinds(settings: type[Any]) -> dict[str, Any]:
    """Return the keys of a provider's settings, with the type of each; ``X | None`` is X."""
    if not attrs.has(settings):
        return {}
    fields = attrs.fields(attrs.resolve_types(settings))
    return {key_of(field.name): _without_none(field.type) for field in fields}


def _without_none(kind: Any) -> Any:
    parts = [part for part in get_args(kind) if part is not type(None)]
    return parts[0] if len(parts) == 1 and type(None) in get_args(kind) else kind


def _made(value: Any, kind: Any, start: Path, home: str) -> Any:
    kinds = {kind, *get_args(kind)}
    if Path in kinds and isinstance(value, str):
        return _absolute(value, start, home)
    if tuple[Path, ...] in kinds and isinstance(value, list):
        return [_made(item, Path, start, home) for item in value]
    if isinstance(kind, type) and attrs.has(kind) and isinstance(value, Mapping):
        return options_absolute(value, kind, start, home)
    return value
