"""The affinities that recognize requests: `auto`, `sequence`, `header` and `json`."""

import functools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs.validators import ge, gt, le, matches_re, min_len

from tarn.domain import AffinityRule, ClusterSpec, ModelTraits
from tarn.errors import ProviderMissingError
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Affinity, Check, CheckResult, Finding, MasterContext

__all__ = [
    "AutoAffinitySettings",
    "HeaderAffinitySettings",
    "JsonAffinitySettings",
    "RuleAffinity",
    "SequenceAffinitySettings",
    "tarn_affinities",
    "tarn_doctor_checks",
]

# The times of rules, so that there are few rules however many times the models have.
_TIMES_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400,
            7 * 86400)  # fmt: skip
# A key outlives Triton's own state by this time: a request that comes just before its end must
# still find it.
MARGIN_S = 5.0


@attrs.frozen
class _Imbalance:
    """A validator of a share of the mean load, in percent."""

    right: str = "0, or 101 to 1000"

    def __call__(self, _settings: object, _field: object, value: object) -> None:
        """Raise ValueError unless *value* is valid."""
        if value != 0 and not (isinstance(value, int) and 101 <= value <= 1000):  # noqa: PLR2004 (as `right`)
            raise ValueError(self.right)


@attrs.frozen
class SequenceAffinitySettings:
    """The settings in ``affinity.options`` for ``use: sequence``."""

    models: tuple[str, ...] = ()
    """More models that keep sequences: those whose configuration does not say so, such as one that
    calls another model. Those with ``sequence_batching`` need not be listed."""
    idle_s: float = attrs.field(default=60.0, validator=[gt(0), le(7 * 86400.0)])
    """For the models listed: how long a sequence without requests keeps its instance. For the
    others their own ``max_sequence_idle_microseconds`` counts."""

    def rules(self, models: Sequence[ModelTraits]) -> Iterator[AffinityRule]:
        """Yield a rule for the models with equal times."""
        if self.models:
            yield AffinityRule(self.models, "sequence", idle_s=self.idle_s)
        yield from _sequences(models, frozenset(self.models))


@attrs.frozen
class AutoAffinitySettings:
    """The settings in ``affinity.options`` for ``use: auto``."""

    response_cache: bool = False
    """Also send equal requests for a model with a response cache to the same instance, so that its
    cache answers them."""
    first_bytes: int = attrs.field(default=4096, validator=[ge(1), le(16384)])
    """How many bytes of the request's body are compared for that."""
    imbalance: int = attrs.field(default=125, validator=_Imbalance())
    """For these requests: how much of the mean load an instance may have, in percent, before they
    go elsewhere; 0: no limit."""

    def rules(self, models: Sequence[ModelTraits]) -> Iterator[AffinityRule]:
        """Yield the rules for sequences, then one for the models with a response cache."""
        yield from _sequences(models)
        cached = tuple(
            sorted(m.name for m in models if m.response_cache and not m.sequence_batching)
        )
        if self.response_cache and cached:
            yield AffinityRule(
                cached, "body", first_bytes=self.first_bytes, imbalance=self.imbalance
            )


@attrs.frozen
class HeaderAffinitySettings:
    """The settings in ``affinity.options`` for ``use: header``."""

    name: str = attrs.field(
        default="X-TARN-Affinity",
        validator=matches_re(r"[A-Za-z0-9-]{1,64}"),
        metadata={"right": "Expected 1 to 64 letters, digits and '-'"},
    )
    """The header: requests with the same value reach the same instance."""
    models: tuple[str, ...] = ()
    """The models for which it counts; empty: all, apart from those with sequences."""
    idle_s: float = attrs.field(default=600.0, validator=[ge(0), le(7 * 86400.0)])
    """How long a value without requests keeps its instance when others were added; 0: not at
    all."""

    def rules(self, models: Sequence[ModelTraits]) -> Iterator[AffinityRule]:
        """Yield the rules for sequences, then the one for the header."""
        yield from _sequences(models)
        yield AffinityRule(self.models, "header", header=self.name, idle_s=self.idle_s)


@attrs.frozen
class JsonAffinitySettings:
    """The settings in ``affinity.options`` for ``use: json``."""

    path: str = attrs.field(validator=min_len(1))
    """Where the value is in the JSON of a request: names, and numbers in lists, with dots, such as
    ``text_input`` or ``inputs.0.data.0``."""
    first_bytes: int = attrs.field(default=256, validator=[ge(0), le(16384)])
    """How many bytes of the value are compared, such as those of a prompt's beginning; 0: all."""
    imbalance: int = attrs.field(default=125, validator=_Imbalance())
    """How much of the mean load an instance may have, in percent, before requests go elsewhere; 0:
    no limit."""
    models: tuple[str, ...] = ()
    """The models for which it counts; empty: all, apart from those with sequences."""

    def rules(self, models: Sequence[ModelTraits]) -> Iterator[AffinityRule]:
        """Yield the rules for sequences, then the one for the value."""
        yield from _sequences(models)
        yield AffinityRule(
            self.models,
            "json",
            path=self.path,
            first_bytes=self.first_bytes,
            imbalance=self.imbalance,
        )


def _sequences(
    models: Sequence[ModelTraits], but: frozenset[str] = frozenset()
) -> Iterator[AffinityRule]:
    """Yield a rule for each time that models keep a sequence."""
    by_time: dict[float, list[str]] = {}
    for model in models:
        if model.sequence_batching and model.name not in but:
            kept_s = min(model.max_sequence_idle_s, _TIMES_S[-1])
            by_time.setdefault(_TIMES_S[bisect_left(_TIMES_S, kept_s)], []).append(model.name)
    for time_s, names in sorted(by_time.items()):
        yield AffinityRule(tuple(sorted(names)), "sequence", idle_s=time_s + MARGIN_S)


@attrs.frozen
class RuleAffinity:
    """Has the rules of its settings."""

    settings: (
        AutoAffinitySettings
        | SequenceAffinitySettings
        | HeaderAffinitySettings
        | JsonAffinitySettings
    )

    def rules(self, models: Sequence[ModelTraits]) -> tuple[AffinityRule, ...]:
        """Return the rules; those for sequences come first."""
        return tuple(self.settings.rules(models))


def _create(settings: Any, _context: MasterContext) -> Affinity:
    return RuleAffinity(settings)


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec) -> Iterable[Check]:
    """Offer a check of the models, if the spec may send a sequence to several instances."""
    ways = tuple(_ways_apart(spec))
    place = spec.models.repository
    if ways and place and "://" not in place and spec.replicas.max > 1:
        yield Check(
            "sequences",
            "A model with sequence batching gives wrong results when requests of one sequence "
            "reach several instances.",
            functools.partial(_survey, place, ways),
        )


def _ways_apart(spec: ClusterSpec) -> Iterator[tuple[str, str, str]]:
    """Yield (key, what it does, what to do) of each key that does not keep sequences together."""
    if spec.affinity.use == "none":
        found = "every request may reach any instance"
        yield "affinity.use = 'none'", found, "Remove it: `auto` keeps sequences together"
    for number, one in enumerate(spec.discovery):
        if one.use != "haproxy":
            found = "whoever finds the instances there chooses one for each request"
            step = (
                "Send sequences through `cluster.client()` or HAProxy; with Knox, set "
                "enableStickySession, and send the cookie that it sets"
            )
            yield f"discovery[{number}].use = '{one.use}'", found, step


def _survey(place: str, ways: tuple[tuple[str, str, str], ...]) -> CheckResult:
    """Read the configurations in the repository; changes nothing."""
    from tarn.triton import lint  # noqa: PLC0415 (only when asked)

    try:
        schema = lint.load()
        repository = lint.scan(Path(place), place, schema.parse)
    except (ProviderMissingError, OSError) as error:
        return CheckResult(f"the models cannot be read here: {error}", known=False)
    kept = [model.name for model in lint.traits_in(repository) if model.sequence_batching]
    if not kept:
        return CheckResult("no model keeps sequences")
    more = f" and {len(kept) - 3} more" if len(kept) > 3 else ""  # noqa: PLR2004
    named = f"{', '.join(kept[:3])}{more} {'keeps' if len(kept) == 1 else 'keep'} sequences"
    findings = tuple(
        Finding("TARN-2008", where, f"{found}, and {named}", step, fatal=False)
        for where, found, step in ways
    )
    return CheckResult("", findings)


@hookimpl
def tarn_affinities() -> Mapping[str, Factory[Affinity]]:
    """Offer the affinities whose rules depend on the models."""
    return {
        "auto": Factory(
            AutoAffinitySettings, _create, "keeps the sequences of the models that have them"
        ),
        "sequence": Factory(
            SequenceAffinitySettings, _create, "keeps sequences, also of the models that you list"
        ),
        "header": Factory(
            HeaderAffinitySettings, _create, "keeps sequences, and requests with the same header"
        ),
        "json": Factory(
            JsonAffinitySettings, _create, "keeps sequences, and requests with the same JSON value"
        ),
    }
