"""The service definition that Ranger Admin needs, and how one that is there differs. Pure."""

import importlib.resources
import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ACCESSES", "differences", "service_definition"]

ACCESSES: Mapping[str, tuple[str, ...]] = {
    "model": ("infer", "metadata", "list"),
    "cluster": ("view", "follow", "authorize", "admin"),
}
"""What may be done with each kind of resource."""
_PARTS = {"resources": ("lookupSupported", "matcher", "matcherOptions"), "accessTypes": ()}
"""What decides; labels, descriptions and numbers are Ranger Admin's business."""


def service_definition() -> dict[str, Any]:
    """Return the definition ``triton``, as it is in this package."""
    text = importlib.resources.files(__package__).joinpath("servicedef.json").read_text("utf-8")
    made: dict[str, Any] = json.loads(text)
    return made


def differences(there: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words what of *there*, a definition of Ranger Admin's, is not as in this package."""
    wanted = service_definition()
    for part, keys in _PARTS.items():
        known = {one.get("name"): one for one in there.get(part) or ()}
        for one in wanted[part]:
            found = known.get(one["name"])
            if found is None:
                yield f"it has no '{one['name']}' among its {part}"
                continue
            yield from (
                f"{part} '{one['name']}': {key} is {json.dumps(found.get(key))}, "
                f"not {json.dumps(one[key])}"
                for key in keys
                if found.get(key) != one[key]
            )
            implied = set(found.get("impliedGrants") or ()) ^ set(one.get("impliedGrants") or ())
            if implied:
                yield f"{part} '{one['name']}': other implied grants: {', '.join(sorted(implied))}"
