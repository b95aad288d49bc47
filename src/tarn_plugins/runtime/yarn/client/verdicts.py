"""How a start on YARN failed, in words for a person. Pure."""

from tarn.errors import LaunchError, NotFoundError, TimedOutError
from tarn.interfaces import ClusterRef

__all__ = ["failed", "no_log", "not_ended", "unheard", "unknown", "waited"]


def failed(application_id: str, reason: str) -> LaunchError:
    """Return the error for a start with a known reason."""
    return LaunchError(
        "yarn",
        reason,
        where=application_id,
        next_step=f"Log: `yarn logs -applicationId {application_id}`",
    )


def unknown(application_id: str) -> LaunchError:
    """Return the error for an application that is gone."""
    return LaunchError("yarn", f"YARN does not know {application_id} any more")


def waited(application_id: str, waits: str, within_s: float, *, granted: bool) -> LaunchError:
    """Return the error for a master that did not come up in time."""
    log = f"Log: `yarn logs -applicationId {application_id}`"
    room = "Choose a queue with room in runtime.options.queue, or lower master.memory."
    since = "after it got its container" if granted else "after its submission"
    return LaunchError(
        "yarn",
        f"its master did not come up within {within_s:g} s {since}: {waits}",
        code="TARN-3141",
        where=application_id,
        next_step=log if granted else room,
    )


def unheard(name: str, application_id: str, error: Exception) -> TimedOutError:
    """Return the error for a start of which nobody knows how it went."""
    return TimedOutError(
        f"it was submitted, but YARN does not say whether its master came up ({error}); it was "
        "left alone",
        where=application_id,
        next_step=f"`tarn status -c {name}` looks again; "
        f"`yarn application -kill {application_id}` ends it",
    )


def not_ended(application_id: str, verdict: LaunchError, error: Exception) -> LaunchError:
    """Return *verdict* with what a person must know: the application may still run."""
    return LaunchError(
        "yarn",
        f"{verdict.found}; ending it failed, too ({error})",
        code=verdict.code,
        where=application_id,
        next_step=f"`yarn application -kill {application_id}` ends it if it still runs. "
        f"{verdict.next_step}",
    )


def no_log(ref: ClusterRef, instance_id: str) -> NotFoundError:
    """Return the error for a log that YARN does not have."""
    return NotFoundError(
        f"{ref.name} has no log of '{instance_id or 'the master'}'",
        where=ref.application_id or "",
        next_step="The log of a running container is on its node: can this machine reach the "
        "NodeManager's web page? YARN keeps the logs of ended containers only with "
        "yarn.log-aggregation-enable, for as long as yarn.log-aggregation.retain-seconds "
        "says.",
    )
