"""What a spec asks of its runtime that the runtime cannot do: an error, never ignored."""

from collections.abc import Iterator

import attrs

from tarn.config.draft import Draft
from tarn.config.offers import Offers
from tarn.domain.spec import ClusterSpec, MasterSpec, PlacementSpec
from tarn.errors import ProviderMissingError
from tarn.interfaces import RuntimeCapabilities
from tarn.plain import Problem, shown

__all__ = ["beyond", "quiet"]

_ASKED = ("environment ", "argument -")
"""How the origin of an option of the Java TARN begins."""


def beyond(spec: ClusterSpec, plugins: Offers) -> Iterator[Problem]:
    """Yield what *spec* asks that its runtime cannot do; nothing where no plugin offers that."""
    able = _capabilities(spec, plugins)
    if able is None:
        return
    use = spec.runtime.use
    if not able.placement:
        for path, value in _placement(spec):
            found = (
                f" = {shown(value, path)}: the runtime '{use}' cannot choose where an instance runs"
            )
            yield _problem(path, found, _others(plugins, "placement"))
    max_rss_mib = spec.instance.max_rss_mib
    if max_rss_mib is not None and not able.tells_memory:
        lacks = "cannot tell how much memory an instance holds"
        found = f" = {max_rss_mib}MiB: the runtime '{use}' {lacks}"
        yield _problem("instance.max_rss", found, _others(plugins, "tells_memory"))
    gpus = spec.instance.resources.gpus
    if gpus and not able.gpus:
        found = f" = {gpus}: the runtime '{use}' cannot give an instance a GPU"
        yield _problem("instance.resources.gpus", found, _others(plugins, "gpus"))


def quiet(draft: Draft, lacking: tuple[Problem, ...]) -> tuple[tuple[Problem, ...], list[str]]:
    """Return the problems that remain, and a note for each that an old option asked for.

    A site's ``PLACEMENT_TAG`` is meant for its YARN: on one machine it does nothing.
    """
    kept: list[Problem] = []
    notes: list[str] = []
    for problem in lacking:
        origin = draft.origin(problem.path)
        if problem.path == "placement.tag" and origin.startswith(_ASKED):
            why = problem.text.rpartition(": ")[2]
            notes.append(f"{origin}: accepted, but has no effect: {why}")
        else:
            kept.append(problem)
    return tuple(kept), notes


def _capabilities(spec: ClusterSpec, plugins: Offers) -> RuntimeCapabilities | None:
    try:
        factory = plugins.choose("runtime", spec.runtime.use, "runtime.use")
    except ProviderMissingError:
        return None  # said already
    able: RuntimeCapabilities = factory.capabilities
    return able


def _placement(spec: ClusterSpec) -> Iterator[tuple[str, object]]:
    """Yield (path, value) of every key of placement that was meant: that is not a default."""
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
    """Say which runtimes can."""
    able = [
        name
        for name, f in sorted(plugins.offers("runtime").items())
        if getattr(f.capabilities, ability)
    ]
    return f"or choose a runtime that can: {', '.join(able)}" if able else "no runtime here can"


def _problem(path: str, found: str, others: str) -> Problem:
    return Problem(path, "TARN-2003", found, next_step=f"Remove it, {others}")
