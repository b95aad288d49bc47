"""The issues of the fleet and of its master, made where each fact is known."""

from collections.abc import Iterator, Mapping
from typing import Any

from tarn.control.journal import Journal
from tarn.control.look_queue import LookStatus
from tarn.control.mailbox import Worker
from tarn.control.state import Saver
from tarn.domain import InstanceState, Issue, Reading
from tarn.domain.calls_everywhere import behind
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.hint_checks import told_failures
from tarn.domain.instance import FRESH_S, Symptom
from tarn.domain.renewal import takes_more
from tarn.domain.standing import mixture

__all__ = [
    "of_calls",
    "of_files",
    "of_fleet",
    "of_journal",
    "of_looks",
    "of_policy",
    "of_readings",
    "of_saver",
    "of_worker",
]

# A worker that needs longer for one item is shown in ``/health``.
BLOCKED_S = 10.0
REPLACE = "`tarn drain` of each older one replaces it by one with what is in the repository now"
# For this long, an alert waits for the result of a test request, so that it can include it.
ANSWERS_WITHIN_S = 5.0
# A required follower that has not come after this time gets a warning.
COMES_WITHIN_S = 30.0
# Looks that are late for a shorter time may be those of a machine that slept, or of a first round.
BEHIND_FOR_S = 10.0


def of_worker(worker: Worker[Any], code: str) -> Iterator[Issue]:
    """Say that *worker* takes long for one item, or that it fails (an issue with *code*)."""
    working_s = worker.working_s()
    if working_s > BLOCKED_S:
        found = f"{worker.name} has been at work for {working_s:.0f} s"
        yield Issue(worker.name, found, code="TARN-1009", public=found)
    if worker.error:
        public = f"{worker.name} failed and is tried again"
        yield Issue(worker.name, f"{worker.name}: {worker.error}", code=code, public=public)


def of_journal(journal: Journal, name: str) -> Iterator[Issue]:
    """Say that events of the cluster *name* are not written to their file or the log."""
    if journal.trouble:
        found = f"events are not kept in their file: {journal.trouble}"
        public = "events cannot be written to their file"
        yield Issue(name, found, code="TARN-3822", public=public)
    if journal.lost:
        found = f"{journal.lost} events were not written to the log"
        yield Issue(name, found, public=found)


def of_saver(saver: Saver, name: str) -> Iterator[Issue]:
    """Say that the state of the cluster *name* is not saved, or that saving takes long."""
    if saver.trouble:
        found = f"the state is not saved: {saver.trouble}"
        yield Issue(name, found, code="TARN-1005", public="the state cannot be saved")
    else:
        yield from of_worker(saver.worker, "TARN-1005")


def of_policy(failure: str, name: str) -> Iterator[Issue]:
    """Say that the policy of the cluster *name* has no answer, if *failure* is not empty."""
    if failure:
        public = "the scaling policy has no answer; the size is kept"
        found = f"the scaling policy has no answer: {failure}"
        yield Issue(name, found, code="TARN-1012", public=public)


def of_files(few: str, name: str) -> Iterator[Issue]:
    """Say that the master of *name* may open fewer files than it needs; *few* says how many."""
    if few:
        yield Issue(name, f"the master {few}", code="TARN-1041", public=f"the master {few}")


def of_looks(looks: LookStatus, name: str) -> Iterator[Issue]:
    """Say that the master of *name* looks at its instances less often than it should."""
    if looks.behind_s >= BEHIND_FOR_S:
        found = (
            f"the master has not managed for {looks.behind_s:.0f} s to look at each instance every "
            f"{looks.interval_s:.2g} s: it needs more CPU"
        )
        yield Issue(name, found, code="TARN-1061", public=found)


def of_calls(fleet: Fleet, at: float) -> Iterator[Issue]:
    """Say which control calls some instances lack, and why."""
    if said := behind(fleet, at):
        models = tuple(sorted({call.model for call in fleet.control.calls} - {""}))
        yield Issue(fleet.name, f"not everywhere: {said}", code="TARN-1135", models=models)


def of_fleet(fleet: Fleet, rules: Rules, now_s: float) -> Iterator[Issue]:
    """Yield the issues of the fleet, and those of its required followers."""
    if fleet.frozen_s is not None:
        found = "replacements are frozen: most instances fell silent at once"
        yield Issue(fleet.name, found, code="TARN-1010", public=found, noted=True)
    if fleet.blind:
        found = (
            f"the master cannot check every instance: {fleet.blind}; until it can, silence "
            "neither removes an instance from the view nor replaces it"
        )
        yield Issue(fleet.name, found, code="TARN-1021", public=found)
    yield from _of_update(fleet)
    mixed = mixture(fleet, now_s)
    if mixed is not None:
        public = "instances serve different models"
        found = f"{public}: {mixed.said}. {REPLACE}"
        yield Issue(fleet.name, found, code="TARN-1147", public=public, models=mixed.models)
    yield from _of_stubs(fleet)
    yield from _alike(fleet, now_s)
    yield from _told(fleet, now_s)
    yield from _of_memory(fleet, rules)
    late = now_s - fleet.started_s >= COMES_WITHIN_S
    for name in sorted(rules.required):
        follower = fleet.followers.get(name)
        if follower is not None and follower.lost:
            public = (
                "a required follower is lost; drains wait a longer fixed time instead of its "
                "acknowledgement"
            )
            found = f"follower {name} is lost: its lease ran out"
            yield Issue(name, found, code="TARN-1301", public=public, noted=True)
        elif late and (follower is None or not follower.came):
            found = f"follower {name} never came; drains do not wait for it"
            yield Issue(name, found, code="TARN-1302")


def _of_update(fleet: Fleet) -> Iterator[Issue]:
    """Name an update that waits for a person, or goes back."""
    update = fleet.update
    if update is not None and update.undone:
        public = f"update {update.number} is being undone"
        found = f"{public}: {update.undone}"
        yield Issue(fleet.name, found, code="TARN-1183", public=public, noted=True)
    elif update is not None and update.paused:
        found = f"update {update.number} is paused: no further instance is replaced"
        yield Issue(fleet.name, found, code="TARN-1187", noted=True)


def _of_stubs(fleet: Fleet) -> Iterator[Issue]:
    """Name each instance that lacks a process of a Python model, unless it drains."""
    lacking = [i for i in fleet.instances if i.stub_ended and i.state is not InstanceState.DRAINING]
    public = f"on {len(lacking)} of {len(fleet.instances)} instances a Python model's process ended"
    for instance in lacking:
        found = f"{instance.id}: {instance.stub_ended}"
        models = instance.model_names  # the text may be about several of them
        yield Issue(instance.id, found, code="TARN-1124", public=public, models=models, noted=True)


def _alike(fleet: Fleet, now_s: float) -> Iterator[Issue]:
    """Say which models fail on all instances alike, with the result of a test request."""
    by_id = {i.id: i for i in fleet.instances}
    for one in fleet.alike:
        found = f"model '{one.model}': {one.said}"
        asked = by_id.get(one.asked)
        unwell = None if asked is None else asked.unwell
        told = unwell is not None and (unwell.answer or unwell.passed)
        if not told and now_s - one.since_s < ANSWERS_WITHIN_S:
            continue  # one alert comes later, with the result in it
        if unwell is not None and unwell.answer:
            found += f"; a test request: {unwell.answer}"
        elif unwell is not None and unwell.passed:
            found += "; a test request is answered well, so look at what callers send"
        if newest := _newest_versions(fleet, one.model):
            found += f"; {newest}"
        verb = "fails" if one.symptom is Symptom.FAILING else f"is {one.symptom}"
        public = f"a model {verb} on all instances alike"
        yield Issue(one.model, found, code="TARN-1152", public=public, models=(one.model,))


def _told(fleet: Fleet, now_s: float) -> Iterator[Issue]:
    """Name the instances that clients avoid, unless they are already marked as unwell."""
    told = told_failures(fleet, now_s)
    for instance in fleet.of(InstanceState.READY) if told else ():
        if instance.unwell is None and (count := told.get(instance.id, 0)):
            answers = "1 bad answer" if count == 1 else f"{count} bad answers"
            found = f"{instance.id}: clients avoid it after {answers}"
            yield Issue(instance.id, found, code="TARN-1128")


def _of_memory(fleet: Fleet, rules: Rules) -> Iterator[Issue]:
    """Say that `instance.max_rss` is less than new instances need, so that it has no effect."""
    limit = rules.spec.instance.max_rss_mib
    if limit is None:
        return
    beyond = [i for i in fleet.of(InstanceState.READY) if takes_more(i, limit)]
    if not beyond:
        return
    most = max(beyond, key=lambda i: i.fresh_mib or 0)
    public = f"{len(beyond)} instances held more than instance.max_rss from the start"
    found = (
        f"instance.max_rss = {limit} MiB: {most.id} held {most.fresh_mib} MiB within "
        f"{FRESH_S / 60:.0f} minutes after it became ready, so a replacement would, too; "
        f"{len(beyond)} of {len(fleet.instances)} are not replaced for their memory"
    )
    ids = tuple(i.id for i in beyond)
    yield Issue(fleet.name, found, code="TARN-1176", public=public, instances=ids)


def _newest_versions(fleet: Fleet, model: str) -> str:
    """Say which version of *model* the instances serve, if it is the same on all."""
    served = {dict(i.versions).get(model) for i in fleet.instances if i.in_view}
    known = [versions for versions in served if versions]
    if len(served) != 1 or not known:
        return ""
    return f"all serve its version {', '.join(known[0])}"


def of_readings(fleet: Fleet, readings: Mapping[str, Reading]) -> Iterator[Issue]:
    """Say that the metrics of ready instances cannot be read, and what is unknown without them."""
    ready = fleet.of(InstanceState.READY)
    seen = [(i.id, readings[i.id].unmeasured) for i in ready if i.id in readings]
    unmeasured = [(instance_id, why) for instance_id, why in seen if why]
    if not unmeasured:
        return
    lacking = "the queue is estimated, and nothing is known of the GPUs"
    public = f"the metrics of {len(unmeasured)} of {len(ready)} instances cannot be read; {lacking}"
    first, why = unmeasured[0]
    ids = tuple(id_ for id_, _ in unmeasured)
    found = f"{public} ({first}: {why})"
    yield Issue(fleet.name, found, code="TARN-1137", public=public, instances=ids)
