"""What doctor sees of the room for a cluster: types, sizes and nodes, and its queue. Pure."""

import math
from collections.abc import Iterator, Mapping

from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.client.checks import instance_ask, master_ask
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen, Rule, looked
from tarn_plugins.runtime.yarn.survey import (
    MEMORY,
    VCORES,
    Amounts,
    Partition,
    QueueFacts,
    YarnNode,
    YarnOverview,
    amounts_text,
)

__all__ = ["RULES"]

_AWAY = ("LOST", "UNHEALTHY", "SHUTDOWN")

_REFRESH = (
    "in capacity-scheduler.xml of the ResourceManager, then run `yarn rmadmin -refreshQueues`"
)
_PREFIX = "yarn.scheduler.capacity"
_STEP = "yarn.scheduler.minimum-allocation-mb"
# A lifetime must be above this to be a limit.
_NEVER = 0


def types(case: Case) -> CheckResult:
    """Report the accelerators that YARN knows, and where they are."""
    overview = case.overview
    kinds = sorted(set(overview.maximum) - {MEMORY, VCORES})
    seen = "; ".join(_where(kind, overview) for kind in kinds) or "memory and vcores only"
    return looked(seen, checks.accelerators(case.spec, overview))


def _where(kind: str, overview: YarnOverview) -> str:
    """Return how many of *kind* there are, by label."""
    by_label: dict[str, list[int]] = {}
    for node in overview.nodes:
        if node.runs and node.total.get(kind):
            by_label.setdefault(node.label, []).append(node.total[kind])
    if not by_label:
        return f"{kind}: on no node"
    parts = [
        f"{sum(each)} on {_nodes(len(each))}" + (f" of label {label}" if label else "")
        for label, each in sorted(by_label.items())
    ]
    return f"{kind}: {', '.join(parts)}"


def largest(case: Case) -> CheckResult:
    """Report the largest container that YARN grants."""
    overview = case.overview
    return looked(
        f"{amounts_text(overview.maximum)} for one container", checks.sizes(case.spec, overview)
    )


def nodes(case: Case) -> CheckResult:
    """Report how many nodes can hold an instance."""
    overview, spec = case.overview, case.spec
    fit = checks.fitting(spec, case.settings.queue, overview)
    where = f" of label {spec.placement.node_label}" if spec.placement.node_label else ""
    free = [node for node in fit if node.has_free(instance_ask(spec))]
    seen = (
        f"{_nodes(len(fit))}{where} can hold an instance, {len(free)} of them now"
        if overview.nodes
        else "YARN listed no node"
    )
    queue = case.settings.queue
    findings = (*checks.nodes(spec, queue, overview), *checks.enough_nodes(spec, queue, overview))
    return CheckResult(seen, findings)


def health(case: Case) -> CheckResult:
    """Report the nodes that are lost or unhealthy."""
    overview = case.overview
    if not overview.nodes:
        raise NotSeen("YARN listed no node")
    away = [node for node in overview.nodes if node.state in _AWAY]
    running = sum(node.runs for node in overview.nodes)
    seen = f"{running} of {_nodes(len(overview.nodes))} run{'s' if running == 1 else ''}"
    return looked(seen, map(_away, away[:8]))


def _away(node: YarnNode) -> Finding:
    said = f": {node.health.strip()}" if node.health.strip() else ""
    step = {
        "UNHEALTHY": "Fix what its health check reports; usually a disk of yarn.nodemanager.local-"
        "dirs is full",
        "LOST": "Start its NodeManager, or put the node out of service",
    }.get(node.state, "Start its NodeManager, unless it was put out of service")
    return Finding("TARN-3170", node.host, f"is {node.state}{said}", step, fatal=False)


def labels(case: Case) -> CheckResult:
    """Report the node labels, and whether the queue may use the wanted ones."""
    overview, spec = case.overview, case.spec
    have = [f"{name} ({_nodes(len(overview.running(name)))})" for name in overview.labels]
    findings = [*checks.label_access(spec, case.settings.queue, overview)]
    for key, label in checks.usable_labels(spec, case.settings.queue, overview):
        if overview.nodes and not overview.running(label):
            finding = Finding(
                "TARN-3165",
                f"{key} = '{label}'",
                "no running node has this label: a request for it waits for ever",
                f'Put nodes into it: `yarn rmadmin -replaceLabelsOnNode "HOST={label}"`, or start '
                "those that have it",
            )
            findings.append(finding)
    return looked(", ".join(have) or "none; every node is in the default partition", findings)


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def use(case: Case) -> CheckResult:
    """Check whether this user's applications can be submitted to the queue."""
    overview, name = case.overview, case.settings.queue
    queue = overview.queue(name)
    where = name if queue is None else queue.name
    usable = [q.name for q in overview.queues if q.running and q.may_submit]
    seen = f"{where} is open to {overview.user}" if overview.queues else "YARN showed no queue"
    if queue is not None and len(usable) > 1:
        seen += f", and {len(usable) - 1} more"
    return CheckResult(seen, tuple(checks.queue_use(name, overview)), known=bool(overview.queues))


def capacity(case: Case) -> CheckResult:
    """Check whether the queue can grow to what `replicas.min` needs, and has it now."""
    queue, needs = case.queue(), _needs(case)
    seen: list[str] = []
    findings: list[Finding] = []
    for label, need in needs.items():
        part = _part(case, queue, label)
        if part is None:
            continue
        of = f" of label {label}" if label else ""
        seen.append(
            f"{queue.path} may grow to {amounts_text(part.most)}{of}, "
            f"{amounts_text(part.used)} in use; needed at least: {amounts_text(need)}"
        )
        findings += _partition(case, queue, part, need)
    findings += _applications(queue)
    known = bool(seen)
    return CheckResult(
        "; ".join(seen) or "the ResourceManager does not report its limits", tuple(findings), known
    )


def _part(case: Case, queue: QueueFacts, label: str) -> Partition | None:
    """Return the queue's share of a partition; None if unknown, or reported by other checks."""
    # A label without a capacity for the queue is not listed at all, and the share is nothing.
    overview = case.overview
    here = overview.queue(case.settings.queue)
    barred = bool(label) and (here is None or not here.may_use(label))
    if barred or not any(node.runs and node.label == label for node in overview.nodes):
        return None
    found = queue.partition(label)
    if found is None and label and queue.partitions:
        return Partition(label, most=dict.fromkeys(queue.partitions[0].most, 0))
    return found if found is not None and found.most else None


def _needs(case: Case) -> dict[str, Amounts]:
    """Return partition -> the rounded request of the master and ``replicas.min`` instances."""
    spec, overview, name = case.spec, case.overview, case.settings.queue
    count = max(1, spec.replicas.min)
    one = _rounded(case, instance_ask(spec))
    found: dict[str, dict[str, int]] = {}
    for label, ask in (
        (spec.placement.node_label, {kind: count * amount for kind, amount in one.items()}),
        (spec.master.node_label, _rounded(case, master_ask(spec))),
    ):
        part = found.setdefault(overview.label(label, name), {})
        for kind, amount in ask.items():
            part[kind] = part.get(kind, 0) + amount
    return dict(found)


def _rounded(case: Case, ask: Amounts) -> Amounts:
    """Return *ask* as YARN rounds it, with memory in whole steps."""
    told = (case.survey.properties or {}).get(_STEP, "")
    step = int(told) if told.isdigit() and int(told) > 0 else 1
    return {**ask, MEMORY: math.ceil(ask[MEMORY] / step) * step}


def _partition(case: Case, queue: QueueFacts, part: Partition, need: Amounts) -> Iterator[Finding]:
    """Yield the first limit that *need* exceeds: the queue's, a user's, the present one."""
    where = f"replicas.min = {case.spec.replicas.min}, runtime.options.queue = '{queue.path}'"
    asked = f"its instances and the master need {amounts_text(need)}"
    of = f" of the label {part.label}" if part.label else ""
    own = f".accessible-node-labels.{part.label}" if part.label else ""
    if _more(need, part.most):
        yield Finding(
            "TARN-3145",
            where,
            f"{asked}; the queue may grow to {amounts_text(part.most)}{of}",
            f"Lower replicas.min, or have {_PREFIX}.{queue.path}{own}.maximum-capacity raised, of "
            f"the queues above it too ({_PREFIX}.{queue.path}{own}.capacity where it is 0), "
            f"{_REFRESH}",
        )
        return
    user = _for_user(queue, part)
    if _more(_less(need, _rounded(case, instance_ask(case.spec))), user):
        yield Finding(
            "TARN-3145",
            where,
            f"{asked}; one user may have {amounts_text(user)} of the queue",
            f"Lower replicas.min, or have {_PREFIX}.{queue.path}.user-limit-factor (now "
            f"{queue.user_factor:g}) raised {_REFRESH}",
        )
    elif _more(_sum(need, part.used), part.most):
        free = {k: max(0, v - part.used.get(k, 0)) for k, v in part.most.items()}
        yield Finding(
            "TARN-3146",
            where,
            f"{asked}; {amounts_text(free)} of the queue is free now: the other instances wait",
            "Wait until applications in it end (`yarn application -list` shows them), or choose "
            "another queue in runtime.options.queue",
            fatal=False,
        )


def _for_user(queue: QueueFacts, part: Partition) -> Amounts:
    """Return one user's limit; the queue's if there is no factor."""
    factor = queue.user_factor
    if factor is None or factor < 0 or not any(part.guaranteed.values()):
        return part.most
    return {k: min(v, int(part.guaranteed.get(k, 0) * factor)) for k, v in part.most.items()}


def _applications(queue: QueueFacts) -> Iterator[Finding]:
    most = queue.most_applications
    if most is not None and queue.applications >= most:
        yield Finding(
            "TARN-3146",
            f"runtime.options.queue = '{queue.path}'",
            f"it has {queue.applications} applications, and takes no more than {most}",
            f"End some, choose another queue, or have {_PREFIX}.{queue.path}.maximum-applications "
            f"raised {_REFRESH}",
        )


def master_room(case: Case) -> CheckResult:
    """Check whether a further master fits into the queue's limit for masters."""
    queue, ask = case.queue(), _rounded(case, master_ask(case.spec))
    part = queue.partition(case.overview.label(case.spec.master.node_label, case.settings.queue))
    if part is None or not any(part.masters.values()):
        return CheckResult("the ResourceManager does not tell", known=False)
    counted = None if case.survey.scheduler is None else case.survey.scheduler.counts_all
    limit = part.masters if counted else {MEMORY: part.masters.get(MEMORY, 0)}
    seen = (
        f"masters may use {amounts_text(limit)} of {queue.path}, "
        f"and use {amounts_text(part.masters_used)}"
    )
    if not _more(_sum(ask, part.masters_used), limit):
        return looked(seen)
    alone = queue.active == 0  # YARN always admits the first application
    then = "the next one waits until it ends" if alone else "it waits until another one ends"
    return looked(seen, (_no_room(queue, part, ask, then, fatal=not alone),))


def _no_room(
    queue: QueueFacts, part: Partition, ask: Amounts, then: str, *, fatal: bool
) -> Finding:
    share = queue.master_percent or 0.0
    needed = ask[MEMORY] + part.masters_used.get(MEMORY, 0)
    raised = math.ceil(100 * share * needed / max(1, part.masters.get(MEMORY, 0))) / 100
    to = f" = {min(1.0, raised):g} or more (now {share:g})" if share else " raised"
    return Finding(
        "TARN-3147",
        f"master.memory = {ask[MEMORY]}MiB, runtime.options.queue = '{queue.path}'",
        f"masters of applications use {amounts_text(part.masters_used)} and may use "
        f"{amounts_text(part.masters)}: {then}",
        f"Lower master.memory, end an application of this queue, or have {_PREFIX}.{queue.path}."
        f"maximum-am-resource-percent{to} {_REFRESH}",
        fatal=fatal,
    )


def lifetime(case: Case) -> CheckResult:
    """Report the lifetime after which YARN kills an application of the queue."""
    queue = case.queue()
    most, default = queue.max_lifetime_s, queue.default_lifetime_s
    if most is None and default is None:
        kind = "" if case.survey.scheduler is None else case.survey.scheduler.kind
        return CheckResult(f"the {kind} scheduler reports no limit", known=kind == "fair")
    limits = {
        "maximum-application-lifetime": most or -1,
        "default-application-lifetime": default or -1,
    }
    given = {name: seconds for name, seconds in limits.items() if seconds > _NEVER}
    if not given:
        return looked(f"applications of {queue.path} have no time limit")
    after_s = min(given.values())
    names = " and ".join(f"{_PREFIX}.{queue.path}.{name}" for name in given)
    finding = Finding(
        "TARN-3148",
        "; ".join(f"{_PREFIX}.{queue.path}.{name} = {s}" for name, s in given.items()),
        f"YARN kills the cluster {_long(after_s)} after its submission, with every instance",
        f"Choose another queue, or have {names} = -1 {_REFRESH}",
        fatal=False,
    )
    return looked(f"{_long(after_s)} after its submission", (finding,))


def _long(seconds: int) -> str:
    hours = seconds / 3600
    return f"{seconds} s" if hours < 2 else f"{seconds} s ({hours:.0f} h)"  # noqa: PLR2004


def _more(need: Amounts, have: Mapping[str, int]) -> bool:
    """Return whether *need* exceeds *have* in any type; a missing type has no limit."""
    return any(amount > have.get(kind, amount) for kind, amount in need.items())


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {kind: amount + other.get(kind, 0) for kind, amount in one.items()}


def _less(whole: Amounts, part: Amounts) -> Amounts:
    return {kind: amount - part.get(kind, 0) for kind, amount in whole.items()}


RULES = (
    Rule(
        "resource types",
        "YARN never grants an accelerator that it does not know, or that no node has.",
        types,
    ),
    Rule(
        "largest container", "YARN refuses larger containers, and then the master fails.", largest
    ),
    Rule(
        "nodes for an instance",
        "An instance, with all its ranks, lives on one node.",
        nodes,
    ),
    Rule("health of the nodes", "Nodes that are away take no instance.", health),
    Rule(
        "node labels",
        "A request with a label gets only nodes with that label, and only from a queue that may "
        "use them.",
        labels,
    ),
    Rule("YARN queue", "YARN refuses an application that its queue does not allow.", use),
    Rule(
        "room in the queue",
        "Instances beyond the queue's capacity are never started.",
        capacity,
    ),
    Rule(
        "room for a master",
        "Without room for its master a cluster does not start.",
        master_room,
    ),
    Rule(
        "lifetime of applications",
        "YARN kills an application that lives longer, and its instances with it.",
        lifetime,
    ),
)
