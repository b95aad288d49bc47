"""What the facts of a node mean for masters and instances on it. Pure.

Each function says what one check saw. Where there are no facts, only `container` is asked.
"""

from collections.abc import Iterator, Mapping

from tarn.domain.address import host_port
from tarn.interfaces import CheckResult, Finding
from tarn.plain import pasted
from tarn_plugins.runtime.yarn.probe.messages import RESOURCE_MANAGER
from tarn_plugins.runtime.yarn.probe.report import ProbeReport

__all__ = ["clock", "container", "limits", "network", "port", "space"]

_FEW_FILES = 4096
_LITTLE_SHM_MIB, _LITTLE_DISK_MIB, _LITTLE_TMP_MIB = 64, 2048, 256
_OFF_S, _FAR_OFF_S = 10.0, 300.0
"""Seconds: what confuses a reader of events; what YARN's tokens and Kerberos do not stand."""


def container(told: ProbeReport) -> CheckResult:
    """Say whether a container came and told, and what node it was."""
    if told.outcome.failure is not None:
        return CheckResult("", (told.outcome.failure,))
    if told.outcome.untold:
        return CheckResult(told.outcome.untold, known=False)
    facts = told.facts
    seen = (
        f"{told.node}, granted after {told.outcome.waited_s:.1f} s: {facts.get('kernel')}, "
        f"{facts.get('machine')}, {facts.get('glibc') or 'an unknown C library'}, cgroup "
        f"{facts.get('cgroup') or 'unknown'}, {facts.get('locale') or 'unknown'}, umask "
        f"{facts.get('umask') or 'unknown'}"
    )
    if not facts.whole:
        seen += "; YARN kept only a part of its output"
    return CheckResult(seen)


def limits(told: ProbeReport) -> CheckResult:
    """Say whose account a container has, and how much it may open and lock."""
    facts = told.facts
    user, uid = facts.get("user"), facts.get("uid")
    seen = (
        f"{user if user not in ('', uid) else 'no name'} (uid {uid}), {facts.get('nofile')} open "
        f"files, {facts.get('memlock')} KiB of locked memory"
    )
    return CheckResult(seen, tuple(_limits(told)))


def _limits(told: ProbeReport) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    files = facts.number("nofile")
    if files is not None and files < _FEW_FILES:
        yield _warning(
            where,
            f"a container may open {files} files; each client's connection is one",
            "Have LimitNOFILE of the NodeManager's service raised to 65536, and restart it",
        )
    if facts.yes("account") is False and not told.subject.image:
        yield _warning(
            where,
            f"uid {facts.get('uid')} has no account there: programs that ask for its name fail",
            "Have the user made on the nodes (with the LinuxContainerExecutor YARN needs it)",
        )


def space(told: ProbeReport) -> CheckResult:
    """Say what room there is for shared memory, files and temporary files."""
    facts = told.facts
    places = {"/dev/shm": "shm", "the container's directory": "disk", "/tmp": "tmp"}  # noqa: S108
    seen = []
    for place, name in places.items():
        room = facts.room(name)
        seen.append(f"{place} {'unknown' if room is None else f'{_size(room[1])} free'}")
    return CheckResult(", ".join(seen), tuple(_space(told)))


def _space(told: ProbeReport) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    shm, disk, tmp = facts.room("shm"), facts.room("disk"), facts.room("tmp")
    if shm is not None and shm[0] <= _LITTLE_SHM_MIB:
        yield _warning(
            where,
            f"shared memory has {shm[0]} MiB: three Python models, or one large tensor, fill it",
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
        yield _warning(
            where, f"{_size(tmp[1])} are free for temporary files", "Have space freed in /tmp"
        )


def network(told: ProbeReport) -> CheckResult:
    """Say whether the node reaches Hadoop's services, and which variables name a proxy."""
    reached = {
        (what, address): told.facts.yes(f"reach_{at}")
        for at, (what, address) in enumerate(told.outcome.targets, 1)
    }
    seen = [f"{what} at {address} {_REACHED[said]}" for (what, address), said in reached.items()]
    proxies = told.facts.get("proxies")
    seen.append(f"proxy variables: {proxies}" if proxies else "no proxy variable")
    return CheckResult(", ".join(seen), tuple(_network(told, reached)))


_REACHED = {True: "answers", False: "does not answer", None: "unknown"}


def _network(
    told: ProbeReport, reached: Mapping[tuple[str, str], bool | None]
) -> Iterator[Finding]:
    for (what, address), said in reached.items():
        another = any(answers for (kind, _), answers in reached.items() if kind == what)
        # masters find nobody at a standby's address: only the active one listens there
        if said is False and not (another and what == RESOURCE_MANAGER):
            yield Finding(
                "TARN-3187",
                told.node,
                f"no connection to the {what} at {address} from there",
                "Check that the name has the same address there (getent hosts), that the "
                "service listens at that address, and the firewall between them",
                fatal=not another,
            )


def clock(told: ProbeReport) -> CheckResult:
    """Say how far the node's clock is from this machine's, as far as the time between tells."""
    milliseconds = told.facts.number("clock")
    if milliseconds is None:
        return CheckResult("the node did not report its time", known=False)
    at = milliseconds / 1000
    # It was looked at between these two moments of this machine's clock.
    off_s = max(told.outcome.started_at - at, 0.0) - max(at - told.outcome.heard_at, 0.0)
    if abs(off_s) < _OFF_S:
        return CheckResult("the same as this machine's, as far as can be measured")
    ahead = "behind" if off_s > 0 else "ahead of"
    found = f"its clock is at least {abs(off_s):.0f} s {ahead} this machine's"
    finding = Finding(
        "TARN-3185",
        told.node,
        found,
        "Have the clocks kept by NTP (chronyc tracking shows one); Kerberos and YARN's tokens "
        "tolerate 5 minutes",
        fatal=abs(off_s) >= _FAR_OFF_S,
    )
    return CheckResult(found, (finding,))


def port(told: ProbeReport) -> CheckResult:
    """Say whether this machine can connect to where a master on the node would listen."""
    facts = told.facts
    at = facts.get("port")
    if told.outcome.heard:
        return CheckResult(
            f"{host_port(told.node, at or told.subject.order.ports[0])} answered from here"
        )
    if not at:
        why = facts.get("port_error") or "the node has no Python to listen with"
        return CheckResult(f"not tried: {why}", known=False)
    address = host_port(told.node, at)
    finding = Finding(
        "TARN-3189",
        address,
        "listened, but this machine did not reach it "
        f"({told.outcome.call_error or 'no answer'}); it could not reach the master's API either",
        "Check three things: the name leads to that node from here "
        f"(`{pasted('getent', 'hosts', told.node)}`); a firewall lets this machine through "
        f"(`{pasted('nc', '-vz', told.node, at)}` while a program listens there; set api.port "
        "to a port that it allows); if the firewall cannot be opened, reading and scaling still "
        "work through the ResourceManager's proxy",
        fatal=False,
    )
    return CheckResult(f"{address} is not reached from here", (finding,))


def _warning(where: str, found: str, next_step: str) -> Finding:
    return Finding("TARN-3185", where, found, next_step, fatal=False)


def _size(mib: int) -> str:
    return f"{mib} MiB" if mib < 10 * 1024 else f"{mib // 1024} GiB"
