"""What TARN's own examinations say: the doctor, the linter, and why a cluster is as it is."""

from collections.abc import Callable, Iterator

import attrs

from tarn.cluster import linting
from tarn.cluster.bundle.part import Offer, Part, left_out, of_json, of_text
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.examining import around_spec
from tarn.cluster.explain import explain
from tarn.domain import ClusterSpec
from tarn.interfaces import Progress

__all__ = ["offers", "why"]

Hear = Callable[[Progress], None]

_DOCTOR = "what `tarn doctor` finds around the cluster"
_LINT = "what `tarn lint` finds in the model repository"


def offers(spec: ClusterSpec | None, around: ClusterEnvironment, hear: Hear) -> Iterator[Offer]:
    """Yield the examinations of *spec*; where there is none, nothing can be examined."""
    yield Offer("doctor/doctor.json", _DOCTOR, lambda: _doctor(spec, around, hear))
    yield Offer("doctor/lint.json", _LINT, lambda: _lint(spec, around, hear))


def why(status: object) -> Part:
    """Return a sentence for each thing that is not as desired in *status*."""
    if not isinstance(status, dict):
        return left_out("cluster/why.txt", "why it is so", "no status is known")
    text = "\n".join(map(str, explain(status, None)))
    return of_text("cluster/why.txt", "a sentence for each thing that is not as desired", text)


def _doctor(spec: ClusterSpec | None, around: ClusterEnvironment, hear: Hear) -> Iterator[Part]:
    if spec is None:
        yield left_out("doctor/doctor.json", _DOCTOR, "without a spec nothing says what to examine")
        return
    found = around_spec(spec, around, hear, probe=False)
    yield of_json("doctor/doctor.json", _DOCTOR, found.plain())
    yield of_text("doctor/doctor.txt", "the same, for people", f"{found}\n\n{found.summary}")


def _lint(spec: ClusterSpec | None, around: ClusterEnvironment, hear: Hear) -> Part:
    path = "doctor/lint.json"
    where = spec.models.repository if spec is not None else ""
    if not where:
        return left_out(path, _LINT, "no model repository is known")
    if "://" in where:
        why_not = "what a URI names would be copied for it: send the output of `tarn lint URI`"
        return left_out(path, _LINT, why_not)
    found = linting.examine(where, around, hear, repair=False)
    return of_json(path, _LINT, attrs.asdict(found))
