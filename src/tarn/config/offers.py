"""Check the spec's choices against the plugins, and its demands against the runtime."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from tarn.config.draft import Draft
from tarn.config.relative import options_absolute
from tarn.domain.spec import ClusterSpec, MasterSpec, PlacementSpec
from tarn.errors import ProviderMissingError
from tarn.interfaces import RuntimeCapabilities
from tarn.plain import Problem, join, shown

__all__ = ["COMING_KEYS", "Offers", "beyond", "examine", "quiet"]

_SINGLE = {"runtime": "local", "scaling": "fixed", "authorizer": "none", "affinity": "auto"}
_SEVERAL = ("discovery", "secrets")
# Keys that this version does not implement, with the part that will: they are refused, since a
# user who set one would expect its effect.
COMING_KEYS = {"farm": "FARMS"}


class Offers(Protocol):
    """The part of `tarn.plugins.Plugins` that this module uses."""

    def offers(self, kind: str) -> Mapping[str, Any]:
        """Return the factories of one kind by name."""
        ...

    def choose(self, kind: str, name: str, where: str) -> Any:
        """Return a factory, or raise ``ProviderMissingError``."""
        ...

    def problems(
        self, factory: Any, options: Mapping[str, object], where: str
    ) -> tuple[Problem, ...]:
        """Return the problems of the options."""
        ...


@attrs.frozen
class _ProviderPath:
    kind: str
    path: str
    choice: dict[str, Any] = attrs.field(hash=False)
    name: str


def choices(draft: Draft) -> Iterator[_ProviderPath]:
    """Yield every valid choice of a provider."""
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
    """Yield the problems of each choice, and make the paths among its options absolute."""
    for place in choices(draft):
        yield from _examine(place, plugins, folder, home)
    for path, part in COMING_KEYS.items():
        if draft.get(path) not in (None, [], ()):
            later = f": not in this version: comes with the part {part}"
            yield Problem(path, "TARN-2004", later, next_step="Remove it")


def _examine(place: _ProviderPath, plugins: Offers, folder: Path, home: str) -> Iterator[Problem]:
    try:
        factory = plugins.choose(place.kind, place.name, join(place.path, "use"))
    except ProviderMissingError as error:
        where = join(place.path, "use")
        yield Problem(where, error.code, error.of_choice, error.right, error.next_step)
        return
    options = place.choice.get("options", {})
    if not isinstance(options, dict):
        return  # reading the spec reports it
    if options:
        options = options_absolute(options, factory.settings, folder, home)
        place.choice["options"] = options
    yield from plugins.problems(factory, options, join(place.path, "options"))


# The origins of options of the Java TARN begin with these.
_ASKED = ("environment ", "argument -")


def beyond(spec: ClusterSpec, plugins: Offers) -> Iterator[Problem]:
    """Yield what *spec* demands beyond the capabilities of its runtime."""
    try:
        factory = plugins.choose("runtime", spec.runtime.use, "runtime.use")
    except ProviderMissingError:
        return  # `examine` reports it
    able: RuntimeCapabilities = factory.capabilities
    use = spec.runtime.use
    if not able.placement:
        why = f"the runtime '{use}' cannot choose where an instance runs"
        for path, value in _placement(spec):
            yield _problem(path, shown(value, path), why, _others(plugins, "placement"))
    max_rss_mib = spec.instance.max_rss_mib
    if max_rss_mib is not None and not able.tells_memory:
        why = f"the runtime '{use}' cannot tell how much memory an instance holds"
        others = _others(plugins, "tells_memory")
        yield _problem("instance.max_rss", f"{max_rss_mib}MiB", why, others)
    gpus = spec.instance.resources.gpus
    if gpus and not able.gpus:
        why = f"the runtime '{use}' cannot give an instance a GPU"
        yield _problem("instance.resources.gpus", str(gpus), why, _others(plugins, "gpus"))


def quiet(draft: Draft, lacking: tuple[Problem, ...]) -> tuple[tuple[Problem, ...], list[str]]:
    """Return the problems that remain, and a note for each that became harmless.

    ``PLACEMENT_TAG`` in a site's environment is meant for its YARN, so elsewhere it is only noted.
    """
    kept: list[Problem] = []
    notes: list[str] = []
    for problem in lacking:
        origin = draft.origin(problem.path)
        if problem.path == "placement.tag" and origin.startswith(_ASKED):
            notes.append(f"{origin}: accepted, but has no effect: {problem.why}")
        else:
            kept.append(problem)
    return tuple(kept), notes


def _placement(spec: ClusterSpec) -> Iterator[tuple[str, object]]:
    """Yield (path, value) of each key of placement that is not at its default."""
    for part, default, keys in (
        (spec.placement, PlacementSpec(), tuple(f.name for f in attrs.fields(PlacementSpec))),
        (spec.master, MasterSpec(), ("node_label",)),
    ):
        name = "placement" if isinstance(part, PlacementSpec) else "master"
        for key in keys:
            value = getattr(part, key)
            if value != getattr(default, key):
                yield f"{name}.{key}", value


def _others(plugins: Offers, ability: str) -> str:
    """Return the runtimes with an *ability*, as the end of an advice."""
    able = [
        name
        for name, f in sorted(plugins.offers("runtime").items())
        if getattr(f.capabilities, ability)
    ]
    return f"or choose a runtime that can: {', '.join(able)}" if able else "no runtime here can"


def _problem(path: str, value: str, why: str, others: str) -> Problem:
    text = f" = {value}: {why}"
    return Problem(path, "TARN-2003", text, next_step=f"Remove it, {others}", why=why)
