"""What is wrong with a master's surroundings, in words for all and in words for its people."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tarn.control.journal import Journal
from tarn.control.mailbox import Worker
from tarn.control.state import Saver
from tarn.domain import InstanceState, Reading
from tarn.domain.calls_everywhere import behind
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import FRESH_S
from tarn.domain.mixed import mixture
from tarn.domain.renewal import takes_more
from tarn.domain.reported_failures import told_failures

__all__ = [
    "Issue",
    "of_calls",
    "of_files",
    "of_fleet",
    "of_journal",
    "of_policy",
    "of_readings",
    "of_saver",
    "of_worker",
]

BLOCKED_S = 10.0
"""An item in work for longer is shown in ``/health``."""
REPLACE = "`tarn drain` of each older one replaces it by one with what is in the repository now"
ANSWERS_WITHIN_S = 5.0
"""For so long an alert waits for what a test request brings."""
COMES_WITHIN_S = 30.0
"""A required follower that has not come by then is worth a warning."""


@attrs.frozen
class Issue:
    """One thing that is wrong now."""

    fault: str
    """For ``/health``, open to all: names no model, user or host. Empty: not shown there."""
    warning: str = ""
    """For ``status``; may name them. Empty: not shown there."""
    code: str = ""
    """What it is, in the table of codes; empty where there is nothing to look up."""
    subject: str = ""
    noted: bool = False
    """Another part makes the event of its beginning."""

    @property
    def said(self) -> str:
        """What people with access are told."""
        return self.warning or self.fault


def of_worker(worker: Worker[Any], code: str) -> Iterator[Issue]:
    """Say whether *worker* has been at one item for long, or fails (an event with *code*)."""
    working_s = worker.working_s()
    if working_s > BLOCKED_S:
        fault = f"{worker.name} has been at work for {working_s:.0f} s"
        yield Issue(fault, fault, "TARN-1009", worker.name)
    if worker.error:
        fault = f"{worker.name} failed and is tried again"
        yield Issue(fault, f"{worker.name}: {worker.error}", code, worker.name)


def of_journal(journal: Journal, name: str) -> Iterator[Issue]:
    """Say that events of the cluster *name* are not written down."""
    if journal.trouble:
        warning = f"events are not kept in their file: {journal.trouble}"
        yield Issue("events cannot be written to their file", warning, "TARN-3822", name)
    if journal.lost:
        yield Issue(f"{journal.lost} events were not written to the log")


def of_saver(saver: Saver, name: str) -> Iterator[Issue]:
    """Say that the state of the cluster *name* is not saved, or that saving takes long."""
    if saver.trouble:
        warning = f"the state is not saved: {saver.trouble}"
        yield Issue("the state cannot be saved", warning, "TARN-1005", name)
    else:
        yield from of_worker(saver.worker, "TARN-1005")


def of_policy(failure: str, name: str) -> Iterator[Issue]:
    """Say that the policy of the cluster *name* has no answer, where *failure* is not empty."""
    if failure:
        fault = "the scaling policy has no answer; the size is kept"
        yield Issue(fault, f"the scaling policy has no answer: {failure}", "TARN-1012", name)


def of_files(few: str, name: str) -> Iterator[Issue]:
    """Say that the master of *name* may open fewer files than it needs; *few* says how many."""
    if few:
        yield Issue(f"the master {few}", "", "TARN-1041", name)


def of_calls(fleet: Fleet, at: float) -> Iterator[Issue]:
    """Say which control calls are not everywhere, where and why."""
    if said := behind(fleet, at):
        yield Issue("", f"not everywhere: {said}", "TARN-1135", fleet.name)


def of_fleet(fleet: Fleet, rules: Rules, now_s: float) -> Iterator[Issue]:
    """Say that replacements are frozen, and name the required followers lost, or never come."""
    if fleet.frozen_s is not None:
        fault = "replacements are frozen: most instances fell silent at once"
        yield Issue(fault, "", "TARN-1010", fleet.name, noted=True)
    if fleet.blind:
        fault = (
            f"the master cannot check every instance: {fleet.blind}; until it can, silence "
            "neither removes an instance from the view nor replaces it"
        )
        yield Issue(fault, fault, "TARN-1021", fleet.name)
    mixed = mixture(fleet, now_s)
    if mixed is not None:
        warning = f"instances serve different models: {mixed.said}. {REPLACE}"
        yield Issue("instances serve different models", warning, "TARN-1147", fleet.name)
    yield from _of_stubs(fleet)
    yield from _alike(fleet, now_s)
    yield from _told(fleet, now_s)
    yield from _of_memory(fleet, rules)
    late = now_s - fleet.started_s >= COMES_WITHIN_S
    for name in sorted(rules.required):
        follower = fleet.followers.get(name)
        if follower is not None and follower.lost:
            fault = (
                "a required follower is lost; drains wait a longer fixed time instead of its "
                "acknowledgement"
            )
            warning = f"follower {name} is lost: its lease ran out"
            yield Issue(fault, warning, "TARN-1301", name, noted=True)
        elif late and (follower is None or not follower.came):
            warning = f"follower {name} never came; drains do not wait for it"
            yield Issue("", warning, "TARN-1302", name)


def _of_stubs(fleet: Fleet) -> Iterator[Issue]:
    """Name each serving instance that lacks a process of a Python model; those that drain, not."""
    lacking = [i for i in fleet.instances if i.stub_ended and i.state is not InstanceState.DRAINING]
    fault = f"on {len(lacking)} of {len(fleet.instances)} instances a Python model's process ended"
    for instance in lacking:
        warning = f"{instance.id}: {instance.stub_ended}"
        yield Issue(fault, warning, "TARN-1124", instance.id, noted=True)
        fault = ""


def _alike(fleet: Fleet, now_s: float) -> Iterator[Issue]:
    """Say which models fail on all instances alike, with what a test request brought."""
    by_id = {i.id: i for i in fleet.instances}
    for one in fleet.alike:
        found = f"model '{one.model}': {one.said}"
        asked = by_id.get(one.asked)
        unwell = None if asked is None else asked.unwell
        told = unwell is not None and (unwell.answer or unwell.passed)
        if not told and now_s - one.since_s < ANSWERS_WITHIN_S:
            continue  # one alert, with the answer in it
        if unwell is not None and unwell.answer:
            found += f"; a test request: {unwell.answer}"
        elif unwell is not None and unwell.passed:
            found += "; a test request is answered well, so look at what callers send"
        if newest := _newest_versions(fleet, one.model):
            found += f"; {newest}"
        fault = f"a model {one.symptom} on all instances alike"
        yield Issue(fault.replace("failing", "fails"), found, "TARN-1152", one.model)


def _told(fleet: Fleet, now_s: float) -> Iterator[Issue]:
    """Name the instances that clients leave alone, unless their outcomes say what is wrong."""
    told = told_failures(fleet, now_s)
    for instance in fleet.of(InstanceState.READY) if told else ():
        if instance.unwell is None and (count := told.get(instance.id, 0)):
            answers = "1 bad answer" if count == 1 else f"{count} bad answers"
            warning = f"{instance.id}: clients avoid it after {answers}"
            yield Issue("", warning, "TARN-1128", instance.id)


def _of_memory(fleet: Fleet, rules: Rules) -> Iterator[Issue]:
    """Say that `instance.max_rss` is less than instances take, and so replaces none of them."""
    limit = rules.spec.instance.max_rss_mib
    if limit is None:
        return
    beyond = [i for i in fleet.of(InstanceState.READY) if takes_more(i, limit)]
    if not beyond:
        return
    most = max(beyond, key=lambda i: i.fresh_mib or 0)
    fault = f"{len(beyond)} instances held more than instance.max_rss from the start"
    warning = (
        f"instance.max_rss = {limit} MiB: {most.id} held {most.fresh_mib} MiB within "
        f"{FRESH_S / 60:.0f} minutes after it became ready, so a replacement would, too; "
        f"{len(beyond)} of {len(fleet.instances)} are not replaced for their memory"
    )
    yield Issue(fault, warning, "TARN-1176", fleet.name)


def _newest_versions(fleet: Fleet, model: str) -> str:
    """Say which version of *model* they serve, where that is one and the same."""
    served = {dict(i.versions).get(model) for i in fleet.instances if i.in_view}
    known = [versions for versions in served if versions]
    if len(served) != 1 or not known:
        return ""
    return f"all serve its version {', '.join(known[0])}"


def of_readings(fleet: Fleet, readings: Mapping[str, Reading]) -> Iterator[Issue]:
    """Say that the metrics of ready instances cannot be read, and what is lacking without them."""
    ready = fleet.of(InstanceState.READY)
    seen = [(i.id, readings[i.id].unmeasured) for i in ready if i.id in readings]
    unmeasured = [(instance_id, why) for instance_id, why in seen if why]
    if not unmeasured:
        return
    lacking = "the queue is estimated, and nothing is known of the GPUs"
    fault = f"the metrics of {len(unmeasured)} of {len(ready)} instances cannot be read; {lacking}"
    first, why = unmeasured[0]
    yield Issue(fault, f"{fault} ({first}: {why})", "TARN-1137", fleet.name)
