"""The spec as plain data: written to a file, explained, described, hashed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tarn.config.loading import LoadedSpec, leaves
from tarn.config.offers import Offers
from tarn.domain.spec import ClusterSpec
from tarn.plain import describe, redact, unstructure

__all__ = ["dump", "explain", "schema", "spec_hash"]

_KINDS = {"runtime": False, "scaling": False, "authorizer": False, "discovery": True}
_KINDS |= {"secrets": True}
"""Key of the spec to whether it is a list of choices."""


def dump(spec: ClusterSpec) -> dict[str, Any]:
    """Return plain data with units; ``load(dump(spec), environ={}).spec == spec``.

    Secrets that stand in the spec (in ``triton.env``, in options) are not masked: see `redact`.
    """
    plain: dict[str, Any] = unstructure(spec)
    return plain


def explain(loaded: LoadedSpec) -> list[tuple[str, str, str]]:
    """Return (path, value as it would be written, origin) of every leaf; secrets masked."""
    plain = redact(dump(loaded.spec))
    return [
        (path, _text(value), loaded.origins.get(path, "default")) for path, value in leaves(plain)
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def spec_hash(spec: ClusterSpec) -> str:
    """Return 12 hex digits of what decides a launch: models, triton, instance."""
    plain = unstructure(spec)
    del plain["instance"]["test_request"]  # what the master sends is not what an instance is
    decisive = {key: plain[key] for key in ("models", "triton", "instance")}
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def schema(plugins: Offers | None = None) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``tarn.yaml``, for editors.

    With *plugins*, each ``use`` lists what is offered, and ``options`` follow from it.
    """
    described: dict[str, Any] = describe(ClusterSpec)
    properties = described["properties"]
    described["required"] = ["models"]  # the folder's name stands in for the name
    properties["models"] = {"anyOf": [{"type": "string"}, properties["models"]]}
    for key, several in _KINDS.items():
        choice = properties[key]["items"] if several else properties[key]
        choice = _choice(choice, plugins.offers(key) if plugins is not None else {})
        short = {"anyOf": [{"type": "string"}, choice]}
        properties[key] = {**properties[key], "items": short} if several else short
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tarn.yaml",
        **described,
    }


def _choice(choice: dict[str, Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    if not offered:
        return choice
    use = {**choice["properties"]["use"], "enum": list(offered)}
    rules = [
        {
            "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
            "then": {"properties": {"options": describe(factory.settings)}},
        }
        for name, factory in offered.items()
    ]
    properties = {**choice["properties"], "use": use}
    return {**choice, "properties": properties, "allOf": rules}
