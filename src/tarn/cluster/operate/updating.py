"""`update`: say what a new spec changes, prepare its models, and hand both to the master."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn import config
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.read.table import update_words
from tarn.cluster.start.launch import preflight
from tarn.cluster.start.staging import stage
from tarn.cluster.start.uploads import carried_tests
from tarn.config.document import parse as parse_yaml
from tarn.config.document import text_of
from tarn.config.loading import leaves
from tarn.domain import ClusterSpec
from tarn.domain.changes import Effect, SpecChange, changes
from tarn.errors import ConfigError, ConfigErrors, TarnError, TimedOutError
from tarn.interfaces import Progress, Staged
from tarn.plain.master_files import MASTER_FILES, SPEC, STAGED

__all__ = ["UpdatePlan", "plan_update", "raise_if_undone", "refuse", "update", "wait_for_update"]

Hear = Callable[[Progress], None]
LOOK_EVERY_S = 0.5
_CONTENT = "models (the content of the repository)"


@attrs.frozen
class UpdatePlan:
    """What an update would do."""

    name: str
    changes: tuple[SpecChange, ...]
    files: Mapping[str, str] = attrs.field(repr=False)
    """The new edition, as the master takes it; without the place of the models until `update`."""

    @property
    def effect(self) -> Effect:
        """The strongest effect of all changes."""
        found = {change.effect for change in self.changes}
        order = (Effect.REFUSED, Effect.ROLLING, Effect.LIVE)
        return next((effect for effect in order if effect in found), Effect.NOTHING)


def plan_update(spec: ClusterSpec, link: Link) -> UpdatePlan:
    """Return what an update of the running cluster to *spec* would do; changes nothing.

    A repository that is copied may have another content, too, which only `update` finds out.

    Raises:
        NotFoundError, UnreachableError, NotAuthorizedError: The master cannot be asked.
    """
    present: Mapping[str, str] = link.read(lambda api: api.spec())["files"]
    before = config.load(parse_yaml(present[SPEC], SPEC).plain, environ={}).spec
    old, new = config.dump(before), config.dump(spec)
    shown_old, shown_new = dict(leaves(config.redact(old))), dict(leaves(config.redact(new)))
    found = tuple(
        attrs.evolve(one, before=shown_old.get(one.path), after=shown_new.get(one.path))
        for one in changes(leaves(old), leaves(new))
    )
    tests = {name: data.decode() for name, data in carried_tests(spec).items()}
    files = {SPEC: text_of(new), STAGED: present[STAGED], **tests}
    again = tuple(
        SpecChange(name, None, None, Effect.LIVE)
        for name in sorted((files.keys() | present.keys()) - {SPEC, STAGED})
        if files.get(name) != present.get(name) and not found
    )
    return UpdatePlan(spec.name, (*found, *again), files)


def update(
    spec: ClusterSpec, link: Link, environment: ClusterEnvironment, hear: Hear
) -> Mapping[str, Any]:
    """Bring the running cluster to *spec*; return the master's answer, which has a ``message``.

    Raises:
        ConfigErrors: A key changed that cannot change while the cluster runs; each is named.
        StorageError: The repository is missing or unreadable, or the disk is too full.
        RefusedError: Another update is on its way.
    """
    hear(Progress("preflight", "comparing the spec with that of the running cluster"))
    plan = plan_update(spec, link)
    refuse(plan)
    preflight(spec, environment, (), hear)
    hear(Progress("staging", "preparing the model repository"))
    staged = stage(spec, environment.plugins(), environment.context(hear))
    plan = _with_models(plan, staged)
    for change in plan.changes:
        hear(Progress("launching", f"{change.effect}: {change}", note=True))
    lines = [str(change) for change in plan.changes]
    answer = link.ask(lambda api: api.update(plan.files, lines))
    _keep(plan.files, environment.paths.cluster(plan.name))
    return answer


def wait_for_update(
    link: Link, environment: ClusterEnvironment, timeout_s: float, hear: Hear
) -> Mapping[str, Any]:
    """Wait until no update is on its way; return how the newest one ended.

    Raises:
        TimedOutError: It is still on its way after *timeout_s*.
    """
    until_s = environment.clock.now_s() + timeout_s
    while True:
        status = link.read(lambda api: api.status())
        running, ended = status.get("updating"), status.get("last_update") or {}
        if running is None:
            break
        said = update_words(running)
        hear(Progress("rolling", said, running["done"], running["of"]))
        if environment.clock.now_s() >= until_s:
            raise TimedOutError(
                f"{said} after {timeout_s:g} s",
                where=link.name,
                next_step=f"It goes on: `tarn status -c {link.name}` shows how far it is, "
                f"`tarn rollback -c {link.name}` undoes it.",
            )
        environment.rest(LOOK_EVERY_S)
    if ended.get("state") == "undone":  # what was kept when it began does not hold any more
        present = link.read(lambda api: api.spec())["files"]
        _keep(present, environment.paths.cluster(link.name))
    return dict(ended)


def raise_if_undone(ended: Mapping[str, Any], name: str) -> None:
    """Raise `TarnError` (code TARN-1184) if the update that *ended* was rolled back."""
    if ended.get("state") == "undone":
        raise TarnError(
            f"update {ended['number']} was rolled back: {ended['reason']}",
            code="TARN-1184",
            where=name,
            next_step="The fleet serves as before. Correct the models or the spec, then "
            "`tarn update` again",
        )


def refuse(plan: UpdatePlan) -> None:
    """Raise if something changed that cannot change while the cluster runs."""
    wrong = [
        ConfigError(
            f"{_differs(one)}, which an update cannot do: {one.why}",
            code="TARN-2105",
            where=one.path,
            next_step=f"Put the old value back, or `tarn down -c {plan.name}` and `tarn up`",
        )
        for one in plan.changes
        if one.effect is Effect.REFUSED
    ]
    if wrong:
        raise ConfigErrors(wrong)


def _differs(change: SpecChange) -> str:
    return str(change).partition(": ")[2]


def _with_models(plan: UpdatePlan, staged: Staged) -> UpdatePlan:
    """Return *plan* with the place of the models; other content at a URI is a change, too."""
    before = json.loads(plan.files[STAGED])
    files = {**plan.files, STAGED: json.dumps(attrs.asdict(staged))}
    found = plan.changes
    moved = staged.location != before.get("location")
    if moved and not any(change.path == "models.repository" for change in found):
        digests = (before.get("digest") or "")[:12], (staged.digest or "")[:12]
        found = (*found, SpecChange(_CONTENT, *digests, Effect.ROLLING))
    return attrs.evolve(plan, changes=found, files=files)


def _keep(files: Mapping[str, str], directory: Path) -> None:
    """Let `tarn up` from here compare with the spec in *files*."""
    if not directory.is_dir():  # it was started from another machine
        return
    for name in MASTER_FILES:
        if name in files:
            made = directory / f".{name}.new"
            made.touch(mode=0o600)
            made.write_text(files[name], "utf-8")
            made.replace(directory / name)
