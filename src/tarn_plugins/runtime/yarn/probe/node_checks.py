"""What the facts of a node mean for masters and instances on it. Pure.

Each function takes what came of one container, and says what one check saw. Where there are no
facts, only `container` says why.
"""

from collections.abc import Iterator

from tarn.interfaces import Finding, Looked
from tarn_plugins.runtime.yarn.probe.driver import Outcome
from tarn_plugins.runtime.yarn.probe.subjects import Subject

__all__ = ["clock", "container", "limits", "network", "port", "space", "unknown"]

_FEW_FILES = 4096
_LITTLE_SHM_MIB, _LITTLE_DISK_MIB, _LITTLE_TMP_MIB = 64, 2048, 256
_OFF_S, _FAR_OFF_S = 10.0, 300.0
"""Seconds: what confuses a reader of events; what YARN's tokens and Kerberos do not stand."""


def unknown(outcome: Outcome) -> Looked | None:
    """Return what every check but the first says of a container without facts; else None."""
    if outcome.failure is None:
        return None
    return Looked("no container told, see the check of the container", known=False)


def container(subject: Subject, outcome: Outcome) -> Looked:
    """Say whether a container came and told, and what node it was."""
    if outcome.failure is not None:
        return Looked("", (outcome.failure,))
    facts = outcome.facts
    seen = (
        f"{outcome.node}, granted after {outcome.waited_s:.1f} s: {facts.get('kernel')}, "
        f"{facts.get('machine')}, {facts.get('glibc') or 'an unknown C library'}, cgroup "
        f"{facts.get('cgroup') or 'unknown'}, {facts.get('locale') or 'unknown'}, umask "
        f"{facts.get('umask') or 'unknown'}"
    )
    if not facts.whole:
        seen += "; YARN kept a part of what it said only"
    return Looked(seen)


def limits(subject: Subject, outcome: Outcome) -> Looked:
    """Say whose account a container has, and how much it may open and lock."""
    facts = outcome.facts
    user = facts.get("user") or "an unnamed user"
    seen = (
        f"{user} ({facts.get('uid')}), {facts.get('nofile')} open files, "
        f"{facts.get('memlock')} KiB of locked memory"
    )
    return Looked(seen, tuple(_limits(subject, outcome)))


def _limits(subject: Subject, outcome: Outcome) -> Iterator[Finding]:
    facts, where = outcome.facts, outcome.node
    files = facts.number("nofile")
    if files is not None and files < _FEW_FILES:
        yield _warning(
            where,
            f"a container may open {files} files; each client's connection is one",
            "Have LimitNOFILE of the NodeManager's service raised to 65536, and restart it",
        )
    if facts.yes("account") is False and not subject.image:
        yield _warning(
            where,
            f"uid {facts.get('uid')} has no account there: programs that ask for its name fail",
            "Have the user made on the nodes (with the LinuxContainerExecutor YARN needs it)",
        )


def space(subject: Subject, outcome: Outcome) -> Looked:
    """Say what room there is for shared memory, files and temporary files."""
    facts = outcome.facts
    places = {"/dev/shm": "shm", "the container's directory": "disk", "/tmp": "tmp"}  # noqa: S108
    seen = []
    for place, name in places.items():
        room = facts.room(name)
        seen.append(f"{place} {'unknown' if room is None else f'{_size(room[1])} free'}")
    return Looked(", ".join(seen), tuple(_space(subject, outcome)))


def _space(subject: Subject, outcome: Outcome) -> Iterator[Finding]:
    facts, where = outcome.facts, outcome.node
    shm, disk, tmp = facts.room("shm"), facts.room("disk"), facts.room("tmp")
    if shm is not None and shm[0] <= _LITTLE_SHM_MIB:
        yield _warning(
            where,
            f"/dev/shm has {shm[0]} MiB: three Python models, or one large tensor, fill it",
            "In Docker: have YARN's administrator allow a tmpfs mount of /dev/shm, or start "
            "dockerd with --default-shm-size; else have /dev/shm mounted with a larger size",
        )
    if disk is not None and disk[1] < _LITTLE_DISK_MIB:
        yield _warning(
            where,
            f"{_size(disk[1])} are free where containers keep their models and logs",
            "Have space freed below yarn.nodemanager.local-dirs and log-dirs",
        )
    if tmp is not None and tmp[1] < _LITTLE_TMP_MIB:
        yield _warning(where, f"/tmp has {_size(tmp[1])} free", "Have space freed there")


def network(subject: Subject, outcome: Outcome) -> Looked:
    """Say whether the node reaches Hadoop's services, and which variables name a proxy."""
    seen, findings = [], []
    for at, (what, address) in enumerate(outcome.targets, 1):
        reached = outcome.facts.yes(f"reach_{at}")
        seen.append(f"{what} at {address} {_REACHED[reached]}")
        if reached is False:
            findings.append(
                Finding(
                    "TARN-3187",
                    outcome.node,
                    f"no connection to the {what} at {address} from there",
                    "Check that the name means the same there (getent hosts), that the service "
                    "listens at that address, and the firewall between them",
                    fatal=what != "HDFS NameNode" or _alone(outcome, what),
                )
            )
    proxies = outcome.facts.get("proxies")
    seen.append(f"proxy variables: {proxies}" if proxies else "no proxy variable")
    return Looked(", ".join(seen), tuple(findings))


_REACHED = {True: "answers", False: "does not answer", None: "unknown"}


def _alone(outcome: Outcome, what: str) -> bool:
    """Say whether nothing of this kind is reached: one of several is enough."""
    return not any(
        outcome.facts.yes(f"reach_{at}") for at, (kind, _) in enumerate(outcome.targets, 1)
        if kind == what
    )


def clock(subject: Subject, outcome: Outcome) -> Looked:
    """Say how far the node's clock is from this machine's, as far as the time between tells."""
    milliseconds = outcome.facts.number("clock")
    if milliseconds is None:
        return Looked("the node said no time", known=False)
    at = milliseconds / 1000
    # It was looked at between these two moments of this machine's clock.
    off_s = max(outcome.started_at - at, 0.0) - max(at - outcome.heard_at, 0.0)
    if abs(off_s) < _OFF_S:
        return Looked("as this machine's, within what can be told")
    ahead = "behind" if off_s > 0 else "ahead of"
    found = f"its clock is at least {abs(off_s):.0f} s {ahead} this machine's"
    finding = Finding(
        "TARN-3185",
        outcome.node,
        found,
        "Have the clocks kept by NTP (chronyc tracking shows one); Kerberos and YARN's tokens "
        "stand 5 minutes",
        fatal=abs(off_s) >= _FAR_OFF_S,
    )
    return Looked(found, (finding,))


def port(subject: Subject, outcome: Outcome) -> Looked:
    """Say whether this machine can connect to where a master on the node would listen."""
    facts = outcome.facts
    at = facts.get("port")
    if outcome.heard:
        return Looked(f"{outcome.node}:{at or subject.order.ports[0]} answered from here")
    if not at:
        why = facts.get("port_error") or "the node has no Python to listen with"
        return Looked(f"not tried: {why}", known=False)
    address = f"{outcome.node}:{at}"
    finding = Finding(
        "TARN-3189",
        address,
        f"listened, and was not reached from here ({outcome.call_error or 'no answer'}); the "
        "master's API could not be, either",
        "Three checks: the name means that node here (`getent hosts "
        f"{outcome.node}`); a firewall lets this machine in (`nc -vz {outcome.node} {at}` while "
        "something listens there; set api.port to one port that it allows); and where it never "
        "will, reads and scaling still work through the ResourceManager's proxy",
        fatal=False,
    )
    return Looked(f"{address} is not reached from here", (finding,))


def _warning(where: str, found: str, next_step: str) -> Finding:
    return Finding("TARN-3185", where, found, next_step, fatal=False)


def _size(mib: int) -> str:
    return f"{mib} MiB" if mib < 10 * 1024 else f"{mib // 1024} GiB"  # noqa: PLR2004
