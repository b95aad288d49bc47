"""Hold the spec's choices against what the plugins offer."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from tarn.config.draft import Draft
from tarn.config.relative import options_absolute
from tarn.errors import ProviderMissingError
from tarn.plain import Problem, join

__all__ = ["COMING_KEYS", "IDLE_KEYS", "Offers", "choices", "examine", "idle"]

_SINGLE = {"runtime": "local", "scaling": "fixed", "authorizer": "none"}
_SEVERAL = ("discovery", "secrets")
COMING_KEYS = {"farm": "FARMS", "update.smoke": "MODELS"}
"""Keys of the spec that nothing in this version obeys: to ignore them would be a lie."""

IDLE_KEYS = {"update.max_unavailable": "MODELS"}
"""Keys that are read and do nothing in this version, since what they bound is not in it either."""


class Offers(Protocol):
    """What this module needs of `tarn.plugins.Plugins`."""

    def offers(self, kind: str) -> Mapping[str, Any]:
        """Return name to factory."""
        ...

    def choose(self, kind: str, name: str, where: str) -> Any:
        """Return a factory; ``ProviderMissingError`` when there is none."""
        ...

    def problems(
        self, factory: Any, options: Mapping[str, object], where: str
    ) -> tuple[Problem, ...]:
        """Return what is wrong with the options."""
        ...


@attrs.frozen
class _ProviderPath:
    kind: str
    path: str
    choice: dict[str, Any] = attrs.field(hash=False)
    name: str


def choices(draft: Draft) -> Iterator[_ProviderPath]:
    """Yield every choice of a provider that can be read as one."""
    for kind, default in _SINGLE.items():
        choice = draft.plain.get(kind, {})
        name = choice.get("use", default) if isinstance(choice, dict) else None
        if isinstance(name, str):
            yield _ProviderPath(kind, kind, choice, name)
    for kind in _SEVERAL:
        listed = draft.get(kind)
        for index, choice in enumerate(listed if isinstance(listed, list) else ()):
            name = choice.get("use") if isinstance(choice, dict) else None
            if isinstance(name, str):
                yield _ProviderPath(kind, join(kind, index), choice, name)


def examine(draft: Draft, plugins: Offers, folder: Path, home: str) -> Iterator[Problem]:
    """Yield what no plugin can do; the paths among the options become absolute meanwhile."""
    for place in choices(draft):
        yield from _examine(place, plugins, folder, home)
    for path, part in COMING_KEYS.items():
        if draft.get(path) not in (None, [], ()):
            later = f": not in this version: comes with the part {part}"
            yield Problem(path, "TARN-2004", later, next_step="Remove it")


def idle(draft: Draft) -> Iterator[str]:
    """Yield a note for each key that was written and does nothing yet."""
    for path, part in IDLE_KEYS.items():
        if draft.get(path) is not None:
            later = f"does nothing in this version; updates come with the part {part}"
            yield f"{draft.origin(path)}: {path} is accepted, and {later}"


def _examine(place: _ProviderPath, plugins: Offers, folder: Path, home: str) -> Iterator[Problem]:
    try:
        factory = plugins.choose(place.kind, place.name, join(place.path, "use"))
    except ProviderMissingError as error:
        where = join(place.path, "use")
        text = error.found.removeprefix(where)
        yield Problem(where, error.code, text, error.right, error.next_step)
        return
    options = place.choice.get("options", {})
    if not isinstance(options, dict):
        return  # reading the spec says so
    if options:
        options = options_absolute(options, factory.settings, folder, home)
        place.choice["options"] = options
    yield from plugins.problems(factory, options, join(place.path, "options"))
