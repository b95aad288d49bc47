"""Make the relative paths of a spec absolute."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import attrs

from tarn.config.draft import Draft
from tarn.domain.spec import NO_TEST
from tarn.plain import key_of

__all__ = ["make_absolute", "options_absolute"]

_PATHS = (
    "models.repository",
    "triton.binary",
    "instance.test_request",
    "update.smoke",
    "api.tls.cert",
    "api.tls.key",
    "api.tls.client_ca",
    "api.tls.keystore",
    "api.tls.ca",
    "api.spnego.keytab",
)
# Values that may stand in place of a path.
_WORDS = frozenset({("instance.test_request", NO_TEST)})
_FILE = "file:"


def make_absolute(draft: Draft, folder: Path, here: Path, home: str) -> None:
    """Make the spec's own relative paths absolute; URIs stay as they are.

    A path in a file is relative to *folder*, which holds the file; a path in an argument or in the
    environment is relative to *here*.
    """
    for path in _PATHS:
        value = draft.get(path)
        if isinstance(value, str) and (path, value) not in _WORDS:
            _replace(draft, path, _absolute(value, _start(draft, path, folder, here), home))
    token = draft.get("api.token")
    if isinstance(token, str) and token.startswith(_FILE) and token != _FILE:
        start = _start(draft, "api.token", folder, here)
        _replace(draft, "api.token", _FILE + _absolute(token.removeprefix(_FILE), start, home))
    proxies = draft.get("api.trusted_proxies")
    for number, one in enumerate(proxies if isinstance(proxies, list) else ()):
        token = one.get("token") if isinstance(one, dict) else None
        if isinstance(token, str) and token.startswith(_FILE) and token != _FILE:
            start = _start(draft, f"api.trusted_proxies[{number}].token", folder, here)
            one["token"] = _FILE + _absolute(token.removeprefix(_FILE), start, home)


def _start(draft: Draft, path: str, folder: Path, here: Path) -> Path:
    ours = draft.origin(path).startswith(("argument", "environment"))
    return here if ours else folder


def _replace(draft: Draft, path: str, value: str) -> None:
    if value != draft.get(path):
        draft.put(tuple(path.split(".")), value, draft.origin(path))


def _absolute(text: str, start: Path, home: str) -> str:
    """Return the path *text* relative to *start*; a URI and '' stay as they are."""
    if not text or "://" in text or text.startswith("/"):
        return text
    if home and (text == "~" or text.startswith("~/")):
        return os.path.normpath(home + text[1:])
    return os.path.normpath(start / text)


def options_absolute(
    options: Mapping[str, Any], settings: type[Any], start: Path, home: str
) -> dict[str, Any]:
    """Return *options* with absolute paths, also in classes within *settings*."""
    kinds: dict[str, tuple[Any, ...]] = {}
    if attrs.has(settings):  # a plugin's other class is reported when its options are read
        for field in attrs.fields(attrs.resolve_types(settings)):
            kinds[key_of(field.name)] = (Path,) if field.metadata.get("path") else _flat(field.type)
    return {key: _made(value, kinds.get(key, ()), start, home) for key, value in options.items()}


def _flat(kind: Any) -> tuple[Any, ...]:
    """Return the types in a type such as ``A | tuple[B, ...] | None``."""
    parts = get_args(kind)
    return tuple(one for part in parts for one in _flat(part)) if parts else (kind,)


def _made(value: Any, kinds: tuple[Any, ...], start: Path, home: str) -> Any:
    if isinstance(value, list):
        return [_made(item, kinds, start, home) for item in value]
    if isinstance(value, str):
        return _absolute(value, start, home) if Path in kinds else value
    inner = next((kind for kind in kinds if isinstance(kind, type) and attrs.has(kind)), None)
    if inner is not None and isinstance(value, Mapping):
        return options_absolute(value, inner, start, home)
    return value
