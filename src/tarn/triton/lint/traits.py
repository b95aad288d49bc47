"""What affinity needs to know of the models in a repository."""

from tarn.domain import ModelTraits
from tarn.domain.affinity import resolve_ensembles, traits_of
from tarn.interfaces.lint import Node, Repository

__all__ = ["traits_in"]


def traits_in(repository: Repository) -> tuple[ModelTraits, ...]:
    """Return the traits of the models whose configuration can be read, sorted by name."""
    return resolve_ensembles(
        traits_of(model.name, _plain(root)) for model, _, root in repository.readable()
    )


def _plain(root: Node) -> dict[str, object]:
    """Return the fields that matter as Triton gives them in JSON."""
    plain: dict[str, object] = {}
    batching, cache = root.first("sequence_batching"), root.first("response_cache")
    if batching is not None:
        idle_us = batching.number("max_sequence_idle_microseconds")
        plain["sequence_batching"] = {"max_sequence_idle_microseconds": idle_us}
    if cache is not None:
        plain["response_cache"] = {"enable": cache.text("enable").lower() in {"true", "t", "1"}}
    scheduling = root.first("ensemble_scheduling")
    steps = scheduling.all("step") if scheduling is not None else ()
    plain["ensemble_scheduling"] = {"step": [{"model_name": s.text("model_name")} for s in steps]}
    return plain
