"""Rules about the ResourceManagers, and Hadoop on this machine. Pure."""

from collections.abc import Iterator

from tarn.clock import Skew, skewed
from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.client.checks import IN_RM
from tarn_plugins.runtime.yarn.doctor.case import (
    CONNECTION,
    JAVA,
    USER,
    VERSIONS,
    Case,
    NotSeen,
    Rule,
    looked,
    teller,
    truth,
)

__all__ = ["RULES"]

_MANY_NODES = 1000
# Kerberos refuses a larger difference.
_KERBEROS_SKEW_S = 300.0


def connection(case: Case) -> CheckResult:
    """Check whether YARN answers, and which ResourceManager is active."""
    survey = case.survey
    states = [f"{one.url} {one.state or one.problem}" for one in survey.resource_managers]
    seen = f"user {survey.client.user}; {', '.join(states)}"
    failure = survey.failure
    if failure is not None and teller(failure.code) == CONNECTION:
        return looked(seen, (failure,))
    return looked(seen, _web_servers(case))


def _web_servers(case: Case) -> Iterator[Finding]:
    managers = case.survey.resource_managers
    for one in managers:
        if one.problem:
            key = "yarn.resourcemanager.webapp.address"
            yield Finding(
                "TARN-3142",
                one.url,
                one.problem,
                f"Start that ResourceManager, open its port to this machine, or correct {key} "
                "in the yarn-site.xml of HADOOP_CONF_DIR here",
                fatal=False,
            )
    known = [one for one in managers if one.state]
    if known and len(known) == len(managers) and all(one.state != "ACTIVE" for one in known):
        yield Finding(
            "TARN-3142",
            ", ".join(one.url for one in known),
            "no ResourceManager is active",
            "`yarn rmadmin -getAllServiceState` shows them; look at ZooKeeper, which chooses, or "
            "run `yarn rmadmin -transitionToActive ID`",
        )


def user(case: Case) -> CheckResult:
    """Report the user who submits, and how that is proven."""
    client = case.survey.client
    how = "by a Kerberos ticket" if client.kerberos else "by name only (no Kerberos)"
    how = f"by the keytab of {client.principal}" if client.principal else how
    return looked(f"{client.user}, {how}")


def versions(case: Case) -> CheckResult:
    """Compare the versions of Hadoop here and on YARN."""
    client, there = case.survey.client, case.survey.resource_managers
    managers = sorted({one.version for one in there if one.version})
    nodes = sorted({node.version for node in case.survey.nodes if node.version})
    others = f"ResourceManager {', '.join(managers) or '?'}, nodes {', '.join(nodes) or '?'}"
    seen = f"here {client.hadoop}, {others}"
    failure = case.survey.failure
    if failure is not None and teller(failure.code) == VERSIONS:
        return looked(seen, (failure,))
    major = {version.partition(".")[0] for version in (client.hadoop, *managers, *nodes) if version}
    if len(major) < 2:  # noqa: PLR2004 (one kind)
        return looked(seen)
    finding = Finding(
        "TARN-3172",
        f"runtime.options.hadoop_home: {client.hadoop}",
        f"YARN is of another major version ({others})",
        "Name an installation of YARN's own version in runtime.options.hadoop_home",
        fatal=False,
    )
    return looked(seen, (finding,))


def java_here(case: Case) -> CheckResult:
    """Report which Java the client runs."""
    client = case.survey.client
    return looked(
        f"{client.java} at {client.java_home}; `tarn doctor --probe` checks the nodes' Java"
    )


def clocks(case: Case) -> CheckResult:
    """Report how far clocks are off, by the header `Date` of web servers of YARN and HDFS."""
    managers = [(f"ResourceManager {one.url}", one.clock) for one in case.survey.resource_managers]
    clocks = (*managers, ("NameNode", case.survey.name_node_clock))
    known = [(whose, clock) for whose, clock in clocks if clock is not None]
    if not known:
        raise NotSeen("no web server of YARN or HDFS reported its time")
    fatal_s = _KERBEROS_SKEW_S if case.survey.client.kerberos else None
    seen = ", ".join(f"{whose} {_offset(clock)}" for whose, clock in known)
    wrong = (skewed(whose, clock, fatal_s) for whose, clock in known)
    return looked(seen, (finding for finding in wrong if finding is not None))


def _offset(clock: Skew) -> str:
    if not clock.sure_s:
        return "agrees with this machine"
    return f"is {abs(clock.sure_s):.0f} s {'ahead' if clock.sure_s > 0 else 'behind'}"


def recovery(case: Case) -> CheckResult:
    """Check whether a restart of the ResourceManager leaves containers alone."""
    live = case.properties
    wanted = {
        "yarn.resourcemanager.recovery.enabled": False,
        "yarn.resourcemanager.work-preserving-recovery.enabled": True,
    }
    off = [name for name, default in wanted.items() if not truth(live, name, default=default)]
    findings = (
        Finding(
            "TARN-3149",
            f"{name} = {live.get(name, 'false')}",
            "a restart or failover of the ResourceManager ends every instance",
            f"Have {name} = true {IN_RM}",
            fatal=False,
        )
        for name in off
    )
    return looked("a restart of the ResourceManager leaves masters and instances alone", findings)


def attempts(case: Case) -> CheckResult:
    """Report how many attempts of a master YARN allows."""
    cap = case.overview.am_max_attempts
    seen = f"up to {cap}" if cap is not None else "not told"
    wanted = f"{seen}; master.max_attempts = {case.spec.master.max_attempts}"
    return CheckResult(
        wanted, tuple(checks.attempts(case.spec, case.overview)), known=cap is not None
    )


def placement(case: Case) -> CheckResult:
    """Check whether YARN accepts placement constraints."""
    overview = case.overview
    seen = "YARN takes them" if overview.placement != "plain" else overview.placement_reason
    if len(overview.nodes) > _MANY_NODES:
        seen += (
            f"; with {len(overview.nodes)} nodes, constraints slow YARN's scheduling down: TARN "
            "asks for a simple one only"
        )
    return looked(seen, checks.placement(case.spec, overview))


def calculator(case: Case) -> CheckResult:
    """Check whether YARN counts more than memory."""
    scheduler = case.survey.scheduler
    if scheduler is None:
        raise NotSeen("no ResourceManager shows its scheduler")
    if scheduler.kind == "fair":
        return _fair_policy(case)
    if scheduler.counts_all is None:
        raise NotSeen(
            f"the scheduler ({scheduler.kind}) does not say; look for "
            "yarn.scheduler.capacity.resource-calculator in capacity-scheduler.xml of the "
            "ResourceManager"
        )
    if scheduler.counts_all:
        return looked("memory, vcores and every other type count")
    finding = Finding(
        "TARN-3143",
        "yarn.scheduler.capacity.resource-calculator = DefaultResourceCalculator",
        "YARN counts memory only: asks for vcores are not enforced, and GPU asks are not enforced",
        "Have yarn.scheduler.capacity.resource-calculator = org.apache.hadoop.yarn.util.resource."
        "DominantResourceCalculator in capacity-scheduler.xml of the ResourceManager, and it "
        "restarted",
        fatal=False,
    )
    return looked("memory counts, and nothing else", (finding,))


def _fair_policy(case: Case) -> CheckResult:
    scheduler, name = case.survey.scheduler, case.settings.queue
    assert scheduler is not None
    # An unused queue is not shown, and will get the policy of the root.
    queue = scheduler.queue(name)
    policy = scheduler.policy if queue is None else queue.policy
    path = name if queue is None else queue.path
    seen = f"the fair scheduler's policy of {path} is {policy or 'not told'}"
    if policy in ("drf", "dominantresourcefairness", ""):
        return CheckResult(seen, known=bool(policy))
    finding = Finding(
        "TARN-3143",
        f"{path}: schedulingPolicy = {policy}",
        "this policy shares only memory: applications get no fair share of GPUs or vcores",
        "Have <schedulingPolicy>drf</schedulingPolicy> for the queue in fair-scheduler.xml of the "
        "ResourceManager; it reads the file again by itself",
        fatal=False,
    )
    return looked(seen, (finding,))


def logs(case: Case) -> CheckResult:
    """Check whether logs outlive their containers."""
    name = "yarn.log-aggregation-enable"
    live = case.properties
    if truth(live, name, default=False):
        kept = live.get("yarn.log-aggregation.retain-seconds", "-1")
        return looked("kept for ever" if kept == "-1" else f"kept for {kept} s")
    finding = Finding(
        "TARN-3161",
        f"{name} = false",
        "the logs of an ended instance or master stay on its node, and are removed there: `tarn "
        "logs` cannot show them",
        f"Have {name} = true in yarn-site.xml of the ResourceManager and of every node, and all of "
        "them restarted",
        fatal=False,
    )
    return looked("not kept", (finding,))


RULES = (
    Rule(
        CONNECTION,
        "While YARN does not answer, nothing can be submitted and no cluster can be found.",
        connection,
    ),
    Rule(USER, "Permissions for queues and directories depend on this user.", user),
    Rule(
        VERSIONS,
        "The client of another version may not understand what YARN answers.",
        versions,
    ),
    Rule(JAVA, "Clients and masters need Java 11 or newer.", java_here),
    Rule(
        "clocks of YARN and HDFS",
        "Tokens and Kerberos tickets depend on the clock.",
        clocks,
    ),
    Rule(
        "ResourceManager's recovery",
        "Instances should go on while the ResourceManager is restarted or fails over.",
        recovery,
    ),
    Rule(
        "attempts of a master",
        "YARN restarts a lost master only a limited number of times.",
        attempts,
    ),
    Rule(
        "placement constraints",
        "With them no node gets a second instance while another one is free.",
        placement,
    ),
    Rule(
        "resource calculator",
        "Two instances may be put on one GPU where YARN counts memory only.",
        calculator,
    ),
    Rule("logs of what ended", "The log of a failed instance is read after its end.", logs),
)
