"""What doctor sees of the room for a cluster: types, sizes and nodes. Pure."""

from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.client.checks import instance_ask
from tarn_plugins.runtime.yarn.client.overview import (
    MEMORY,
    VCORES,
    YarnNode,
    YarnOverview,
    amounts_text,
)
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen, Rule, looked

__all__ = ["RULES"]

_AWAY = ("LOST", "UNHEALTHY", "SHUTDOWN")


def types(case: Case) -> CheckResult:
    """See which accelerators YARN knows, and where they are."""
    overview = case.overview
    kinds = sorted(set(overview.maximum) - {MEMORY, VCORES})
    seen = "; ".join(_where(kind, overview) for kind in kinds) or "memory and vcores only"
    return looked(seen, checks.accelerators(case.spec, overview))


def _where(kind: str, overview: YarnOverview) -> str:
    """Return how many of *kind* there are, and on how many nodes of which label."""
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
    """See the largest container that YARN grants."""
    overview = case.overview
    return looked(
        f"{amounts_text(overview.maximum)} for one container", checks.sizes(case.spec, overview)
    )


def nodes(case: Case) -> CheckResult:
    """See how many nodes can hold an instance."""
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
    """See which nodes are away or unhealthy."""
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
    """See which node labels there are, and whether the queue may use the wanted ones."""
    overview, spec = case.overview, case.spec
    have = [f"{name} ({_nodes(len(overview.running(name)))})" for name in overview.labels]
    findings = [*checks.label_access(spec, case.settings.queue, overview)]
    said = {finding.where for finding in findings}
    for key, label in (
        ("placement.node_label", spec.placement.node_label),
        ("master.node_label", spec.master.node_label),
    ):
        where = f"{key} = '{label}'"
        if label and where not in said and overview.nodes and not overview.running(label):
            findings.append(_no_nodes(where, label))
    return looked(", ".join(have) or "none; every node is in the default partition", findings)


def _no_nodes(where: str, label: str) -> Finding:
    return Finding(
        "TARN-3165",
        where,
        "no running node has this label: a request for it waits for ever",
        f'Put nodes into it: `yarn rmadmin -replaceLabelsOnNode "HOST={label}"`, or start those '
        "that have it",
    )


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


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
)
