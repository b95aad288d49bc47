"""When an instance serves. Triton is started lenient, so that this is ours to decide."""

from tarn.domain.reading import ModelState, Reading
from tarn.domain.samples import Known, Unknown
from tarn.domain.spec import ModelsSpec

__all__ = ["relevant", "serving"]


def serving(reading: Reading, models: ModelsSpec) -> tuple[bool, str]:
    """Return whether an instance may get traffic, and if not why, in words.

    It may when it is live, every model that it should serve is settled (READY, or UNAVAILABLE
    with a reason), at least one is READY (all, with ``require: all``), and warm-up is done.

    Source: seen on Triton 2.51, where the strict settings make one bad model answer for all.
    """
    match reading.live:
        case Unknown(reason=reason):
            return False, reason
        case Known(value=False):
            return False, "Triton says that it is not live"
        case Known():
            pass
    if isinstance(reading.models, Unknown):
        return False, reading.models.reason
    return _settled(relevant(reading.models.value, models), models, warm=reading.warm)


def relevant(listed: tuple[ModelState, ...], models: ModelsSpec) -> tuple[ModelState, ...]:
    """Return the states of the models that should be served: ``models.serve``, else all listed."""
    if not models.serve:
        return listed
    found = {m.name: m for m in listed}
    absent = "Triton does not list it: it is not in the repository"
    return tuple(found.get(name, ModelState(name, "UNAVAILABLE", absent)) for name in models.serve)


def _settled(wanted: tuple[ModelState, ...], models: ModelsSpec, *, warm: bool) -> tuple[bool, str]:
    if not wanted:
        return False, "Triton lists no model"
    bad = [m for m in wanted if m.state == "UNAVAILABLE" and m.reason]
    ready = [m for m in wanted if m.state == "READY"]
    if len(bad) + len(ready) < len(wanted):
        open_ = [m.name for m in wanted if m not in bad and m not in ready]
        return False, f"loading model {len(ready) + 1} of {len(wanted)}: {', '.join(open_[:3])}"
    if bad and (models.require == "all" or not ready):
        return False, f"model {bad[0].name} is unavailable: {bad[0].reason}"
    if not warm:
        return False, "warm-up is still running"
    return True, ""
