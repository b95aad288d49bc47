"""From a cluster, or what is left of it, to a bundle that may be given away."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from tarn.cluster.bundle import examined, kept, logs, machine
from tarn.cluster.bundle.archive import write
from tarn.cluster.bundle.known import known
from tarn.cluster.bundle.manifest import MANIFEST, README, BundleManifest, manifest, readme
from tarn.cluster.bundle.master import MasterPages
from tarn.cluster.bundle.naming import people_and_machines
from tarn.cluster.bundle.part import Offer, Part, gathered, left_out, of_json
from tarn.cluster.bundle.pseudonyms import Pseudonyms
from tarn.cluster.bundle.scrub import Scrubber
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.log_lines import MASTER
from tarn.domain import ClusterSpec
from tarn.errors import TarnError
from tarn.interfaces import Progress

__all__ = ["FOLDERS", "Bundle", "BundleOptions", "BundleSubject", "make"]

FOLDERS = ("cluster", "config", "doctor", "kept", "logs", "machine")
"""Of a bundle; the manifest stands above them."""

Hear = Callable[[Progress], None]
_MIB = 2**20
_NO_SPEC = "no spec of it is known here: name its tarn.yaml with -f"
_UNSEARCHED = (
    "so its logs cannot be searched for secrets: --unsearched-logs includes them anyway; then "
    "look through them yourself"
)
_STATUS = "cluster/status.json"


@attrs.frozen(eq=False)
class BundleSubject:
    """What a bundle is about, and how it is asked."""

    name: str
    """Of the cluster; empty: none is meant, and the bundle is about this machine."""
    around: ClusterEnvironment
    spec: ClusterSpec | None = None
    """None: no spec is known here."""
    link: Link | None = None
    """To the master; None: there is no such cluster."""
    status: Callable[[], Mapping[str, Any]] | None = None
    """As `Cluster.status`, also for one without a master."""
    logs: Callable[[str, int | None], Iterator[str]] | None = None
    """Lines of an instance's log ('' is the master's), so many at most."""
    logged: Callable[[], tuple[str, ...]] | None = None
    """Ids of all whose logs there are."""
    unknown: TarnError | None = None
    """Why nobody can be asked about the cluster."""

    @property
    def directory(self) -> Path | None:
        """Where this machine keeps what it knows of the cluster; it may be gone."""
        return self.around.paths.cluster(self.name) if self.name else None


@attrs.frozen
class BundleOptions:
    """What a bundle should hold."""

    log_mib: float = 2.0
    """MiB of the end of each log."""
    without: tuple[str, ...] = ()
    """Folders of the bundle that are left out, such as ``logs`` or ``doctor``."""
    with_names: bool = False
    """Whether people and machines keep their names."""
    unsearched_logs: bool = False
    """Whether logs are taken where no spec is known, and so not which secrets they may tell."""


@attrs.frozen(eq=False)
class Bundle:
    """A bundle that may be given away; `write` puts it into a file."""

    folder: str
    made_at: float
    parts: tuple[Part, ...] = attrs.field(repr=False)
    files: Mapping[str, str] = attrs.field(repr=False)
    """Name to text, the manifest among them."""
    redacted: Mapping[str, int]
    """Kind of secret to how often it was taken out."""
    stand_ins: Mapping[str, str] = attrs.field(repr=False)
    """Name of a person or machine to what stands in its place; nothing of it is in the bundle."""

    def write(self, path: Path) -> int:
        """Write it to *path*, a .tar.gz for its owner only; return its bytes."""
        return write(path, self.folder, self.files, self.made_at)


def make(subject: BundleSubject, wanted: BundleOptions, hear: Hear) -> Bundle:
    """Gather everything, and take out what nobody else may have.

    Raises:
        TarnError: What was gathered still tells a secret (TARN-3843); it is given to nobody.
    """
    made_at = subject.around.clock.at()
    status = _status(subject)
    directory = subject.directory or subject.around.paths.home / "no cluster"
    secrets, unread = known(subject.spec, subject.around, directory, _ids(status))
    untold = _NO_SPEC if subject.spec is None else "; ".join(unread)
    parts = (*_first(status), *_gather(subject, wanted, hear, status, untold))
    hear(Progress("redacting", "taking out secrets"))
    scrubber = Scrubber(secrets, None if wanted.with_names else _names(subject, parts))
    cleaned, counts = _cleaned(parts, scrubber)
    about = BundleManifest(
        scrubber.clean(subject.name)[0],
        made_at,
        wanted.with_names,
        Counter(scrubber.known.values()),
        scrubber.too_short,
        tuple(scrubber.clean(one)[0] for one in unread),
    )
    told = manifest(about, cleaned, counts)
    files = {README: readme(told), MANIFEST: told}
    files |= {part.path: part.text for part in cleaned if not part.left_out}
    _assert_silent(files, scrubber)
    return Bundle(
        _folder(about.cluster, made_at),
        made_at,
        cleaned,
        files,
        sum((Counter(found) for found in counts.values()), Counter[str]()),
        dict(scrubber.names.stand_ins) if scrubber.names is not None else {},
    )


def _status(subject: BundleSubject) -> Mapping[str, Any] | TarnError | None:
    if subject.status is None:
        return subject.unknown
    try:
        return subject.status()
    except TarnError as error:
        return error


def _first(status: Mapping[str, Any] | TarnError | None) -> Iterator[Part]:
    what = "state, size, limits, instances, followers, faults"
    if isinstance(status, Mapping):
        yield of_json(_STATUS, what, dict(status))
        yield examined.why(dict(status))
    else:
        why = f"[{status.code}] {status}" if status is not None else "there is no cluster to ask"
        yield left_out(_STATUS, what, why)


def _gather(
    subject: BundleSubject,
    wanted: BundleOptions,
    hear: Hear,
    status: Mapping[str, Any] | TarnError | None,
    untold: str,
) -> Iterator[Part]:
    """Yield every part; *untold* says why not all secrets are known: empty, where they are."""
    most_bytes = int(wanted.log_mib * _MIB)
    offers = (
        *_pages(subject, status).offers(),
        *kept.offers(subject.directory, subject.spec, most_bytes),
        *_log_offers(subject, status, most_bytes, "" if wanted.unsearched_logs else untold),
        *machine.offers(subject.around),
        *examined.offers(subject.spec, subject.around, hear),
    )
    for number, offer in enumerate(offers):
        if offer.path.partition("/")[0] in wanted.without:
            yield left_out(offer.path, offer.what, "it was left out on request")
            continue
        hear(Progress("gathering", offer.what, number, len(offers)))
        yield from gathered(offer)


def _pages(subject: BundleSubject, status: Mapping[str, Any] | TarnError | None) -> MasterPages:
    if isinstance(status, TarnError):
        return MasterPages(subject.link, f"the master did not say: [{status.code}] {status}")
    if status is not None and status.get("code"):  # it stands in for a master that is not there
        return MasterPages(subject.link, f"no master is at work: {status.get('reason')}")
    return MasterPages(subject.link)


def _log_offers(
    subject: BundleSubject,
    status: Mapping[str, Any] | TarnError | None,
    most_bytes: int,
    untold: str,
) -> Iterator[Offer]:
    what = "the last of each log"
    if untold:
        yield Offer("logs/…", what, lambda: left_out("logs/…", what, f"{untold}; {_UNSEARCHED}"))
        return
    folder = subject.directory / "logs" if subject.directory is not None else None
    read = subject.logs
    if folder is not None and folder.is_dir():
        yield Offer("logs/", what, lambda: logs.of_files(folder, "logs", most_bytes))
    elif read is not None:
        yield Offer(
            "logs/",
            what,
            lambda: logs.of_runtime(read, _logged(subject, status), "logs", most_bytes),
        )


def _logged(subject: BundleSubject, status: object) -> tuple[str, ...]:
    """Return the instances whose logs are taken; of a cluster that is over, the runtime knows."""
    ids = _ids(status)
    if ids or subject.logged is None:
        return ids
    try:
        return tuple(one for one in subject.logged() if one != MASTER)
    except TarnError:
        return ()  # the log of the master says whether there are any


def _ids(status: object) -> tuple[str, ...]:
    """Return the ids of instances: those that live, then those that ended, the newest first."""
    if not isinstance(status, Mapping):
        return ()
    alive = [str(one["id"]) for one in status.get("instances") or ()]
    over = [str(one["id"]) for one in status.get("ended") or ()]
    return tuple(dict.fromkeys((*alive, *reversed(over))))


def _names(subject: BundleSubject, parts: Sequence[Part]) -> Pseudonyms:
    """Return the people and machines of all parts: a later one may be the one that tells."""
    names = people_and_machines(subject.spec, subject.around)
    for part in parts:
        names.learn(part.left_out)
        if part.path != machine.VERSIONS:  # 4.12.0.88 is not an address there
            names.learn(part.text)
    return names


def _cleaned(
    parts: Sequence[Part], scrubber: Scrubber
) -> tuple[tuple[Part, ...], Mapping[str, Mapping[str, int]]]:
    """Return *parts* without secrets, and by path what was taken out of each."""
    cleaned, counts = [], {}
    for part in parts:
        path, _ = scrubber.clean(part.path)
        text, found = scrubber.clean(part.text)
        why, _ = scrubber.clean(part.left_out)
        cleaned.append(attrs.evolve(part, path=path, text=text, left_out=why))
        if found:
            counts[path] = found
    return tuple(cleaned), counts


def _assert_silent(files: Mapping[str, str], scrubber: Scrubber) -> None:
    """Look once more, at what would be written: a secret here is a fault of TARN's own."""
    for name, text in files.items():
        kinds = scrubber.told(text) + scrubber.told(name)
        if kinds:
            raise TarnError(
                f"{name} would still contain: {', '.join(kinds)}; nothing was written",
                code="TARN-3843",
                next_step=f"Report it, and leave that part out: --without {name.partition('/')[0]}",
            )


def _folder(name: str, made_at: float) -> str:
    stamp = datetime.fromtimestamp(made_at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"tarn-{name or 'no-cluster'}-{stamp}"
