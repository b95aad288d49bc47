"""Paths that are written relative, made absolute before anybody else reads them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def _path_keys(settings: type[Any]) -> tuple[str, ...]:
    """Return the keys of a provider's settings that hold, or may hold, a path of this machine."""
    if not attrs.has(settings):
        return ()
    return tuple(
        key_of(field.name)
        for field in attrs.fields(attrs.resolve_types(settings))
        if field.type in (Path, Path | None) or field.metadata.get("path")
    )


def options_absolute(
    options: Mapping[str, Any], settings: type[Any], start: Path, home: str
) -> dict[str, Any]:
    """Return *options* with the paths among them absolute."""
    keys = _path_keys(settings)
    return {
        key: _absolute(value, start, home) if key in keys and isinstance(value, str) else value
        for key, value in options.items()
    }
