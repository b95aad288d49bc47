"""Make a bundle that may be shared, from a cluster or what is left of it."""

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import NotFoundError, TarnError, TimedOutError
from tarn.interfaces import ClientContext, ClusterInspection, Progress
from tarn.plain import redact
from tarn.release import version
from tarn.triton import gpus
from tarn_plugins.cli.support_bundle.archive import (
    MANIFEST,
    README,
    BundleManifest,
    manifest,
    readme,
    write,
)
from tarn_plugins.cli.support_bundle.known import known
from tarn_plugins.cli.support_bundle.parts import (
    MasterPages,
    Offer,
    Part,
    examined_offers,
    gathered,
    kept_offers,
    left_out,
    of_files,
    of_json,
    of_runtime,
    of_text,
)
from tarn_plugins.cli.support_bundle.pseudonyms import Pseudonyms, people_and_machines
from tarn_plugins.cli.support_bundle.scrub import Scrubber

__all__ = ["FOLDERS", "VERSIONS", "Bundle", "BundleOptions", "machine_offers", "make"]

VERSIONS = "machine/versions.json"

# The time limit of a program that prints its version: ``hadoop`` starts a Java.
_WITHIN_S = 20.0
# Characters of such a program's output.
_MOST = 64 * 2**10
_OURS = re.compile(r"^(?:TARN|HADOOP|YARN|JAVA|JDK|TRITON|KRB5|CUDA|NVIDIA|LD_|MALLOC|OMP)")
# Variables whose values are paths, numbers or names; any other may contain a secret.
_TOLD = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "HADOOP_CONF_DIR",
        "HADOOP_HOME",
        "HADOOP_VERSION",
        "JAVA_HOME",
        "KRB5CCNAME",
        "KRB5_CONFIG",
        "LD_LIBRARY_PATH",
        "NVIDIA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "TARN_DISABLED_PLUGINS",
        "TARN_HOME",
        "YARN_CONF_DIR",
    }
)
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "memory_locked": resource.RLIMIT_MEMLOCK,
    "core": resource.RLIMIT_CORE,
}
_CONTAINERS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
# The lines of ``/proc/meminfo`` that are reported.
_MEMORY = frozenset({"MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Shmem"})


def machine_offers(subject: ClusterInspection) -> Iterator[Offer]:
    """Yield the parts about this machine, which need no cluster."""
    around = subject.context
    yield Offer(
        "machine/platform.json",
        "operating system, room, limits, GPUs, variables that matter",
        lambda: of_json("machine/platform.json", "this machine", _platform(around)),
    )
    yield Offer(
        VERSIONS,
        "versions of TARN, Python, installed packages and plugins",
        lambda: of_json(VERSIONS, "what is installed", _versions(subject)),
    )
    programs: dict[str, tuple[str, ...]] = {"java": ("-version",), "hadoop": ("version",)}
    # most machines lack it, which is not worth an entry in the manifest
    if shutil.which("nvidia-smi", path=around.environ.get("PATH")):
        programs["nvidia-smi"] = ()
    for name, arguments in programs.items():
        path, what = f"machine/{name}.txt", f"what `{' '.join((name, *arguments))}` says"
        yield Offer(path, what, partial(_said, path, what, (name, *arguments), around))


def _said(path: str, what: str, words: tuple[str, ...], around: ClientContext) -> Part:
    program = _program(words[0], around.environ)
    try:
        done = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(around.environ),
            timeout=_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimedOutError(f"it printed nothing within {_WITHIN_S:g} s", where=program) from error
    except OSError as error:
        raise NotFoundError(f"it does not start ({error.strerror})", where=program) from error
    told = done.stdout.decode("utf-8", "replace")[:_MOST]
    return of_text(path, what, f"{program}: exit code {done.returncode}\n{told}")


def _program(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program, by ``<NAME>_HOME`` or else by ``PATH``.

    Raises:
        NotFoundError: It is not on this machine.
    """
    home = environ.get(f"{name.upper()}_HOME", "")
    own = Path(home) / "bin" / name
    found = str(own) if home and own.is_file() else shutil.which(name, path=environ.get("PATH"))
    if not found:
        raise NotFoundError(f"there is no {name} on this machine", code="TARN-3840")
    return found


def _platform(around: ClientContext) -> Mapping[str, object]:
    paths = around.paths
    meminfo = Path("/proc/meminfo").read_text("ascii")
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        # the kind of container in which this process runs, by the files that it makes
        "container": " ".join(kind for path, kind in _CONTAINERS.items() if Path(path).exists()),
        "processors": os.cpu_count(),
        "processors_for_us": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "memory": {  # KiB
            name: int(rest.split()[0])
            for name, _, rest in (line.partition(":") for line in meminfo.splitlines())
            if name in _MEMORY
        },
        "free_bytes": {
            str(path): shutil.disk_usage(path).free
            for path in (paths.home, paths.cache, Path("/dev/shm"), Path("/tmp"))  # noqa: S108
            if path.exists()
        },
        "limits": {name: resource.getrlimit(number) for name, number in _LIMITS.items()},
        "gpus": list(gpus.present()),
        "variables": _variables(around.environ),
    }


def _variables(environ: Mapping[str, str]) -> object:
    """Return the variables that affect TARN, Hadoop, Java and Triton; most without their values."""
    chosen = {
        name: value if name in _TOLD else "set"
        for name, value in sorted(environ.items())
        if _OURS.match(name)
    }
    return redact(chosen, free=True)


def _versions(subject: ClusterInspection) -> Mapping[str, object]:
    return {
        "tarn": version(),
        "python": sys.version,
        "executable": sys.executable,
        "packages": dict(sorted((o.name, o.version) for o in importlib.metadata.distributions())),
        "plugins": subject.providers(),
    }


# The folders of a bundle; manifest and README are outside them.
FOLDERS = ("cluster", "config", "doctor", "kept", "logs", "machine")

_MIB = 2**20
_NO_SPEC = "no spec of it is known here: name its tarn.yaml with -f"
_UNSEARCHED = (
    "so its logs cannot be searched for secrets: --unsearched-logs includes them anyway; then "
    "look through them yourself"
)
_STATUS = "cluster/status.json"


@attrs.frozen
class BundleOptions:
    """What a bundle should contain."""

    log_mib: float = 2.0
    """MiB of the end of each log."""
    without: tuple[str, ...] = ()
    """Folders of the bundle that are left out, such as ``logs`` or ``doctor``."""
    with_names: bool = False
    """Whether people and machines keep their names."""
    unsearched_logs: bool = False
    """Whether logs are included even if no spec, and so not every secret, is known."""


@attrs.frozen(eq=False)
class Bundle:
    """A bundle that may be shared; `write` puts it into a file."""

    folder: str
    made_at: float
    parts: tuple[Part, ...] = attrs.field(repr=False)
    files: Mapping[str, str] = attrs.field(repr=False)
    """Name to text, including the manifest."""
    redacted: Mapping[str, int]
    """Kind of secret to how often it was removed."""
    stand_ins: Mapping[str, str] = attrs.field(repr=False)
    """Name of a person or machine to its stand-in; not part of the bundle."""

    def write(self, path: Path) -> int:
        """Write it to *path*, a .tar.gz that only its owner can read; return its size."""
        return write(path, self.folder, self.files, self.made_at)


def make(subject: ClusterInspection, wanted: BundleOptions) -> Bundle:
    """Gather everything, and remove secrets and names.

    Raises:
        TarnError: The result would still contain a secret (TARN-3843).
    """
    made_at, hear = subject.context.clock.at(), subject.context.progress
    status = _status(subject)
    directory = subject.directory or subject.context.paths.home / "no cluster"
    secrets, unread = known(subject, directory, _ids(status))
    untold = _NO_SPEC if subject.spec is None else "; ".join(unread)
    parts = (*_first(subject, status), *_gather(subject, wanted, status, untold))
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
    told, stamp = manifest(about, cleaned, counts), datetime.fromtimestamp(made_at, UTC)
    files = {README: readme(told), MANIFEST: told}
    files |= {part.path: part.text for part in cleaned if not part.left_out}
    _assert_silent(files, scrubber)
    return Bundle(
        f"tarn-{about.cluster or 'no-cluster'}-{stamp:%Y%m%dT%H%M%SZ}",
        made_at,
        cleaned,
        files,
        sum((Counter(found) for found in counts.values()), Counter[str]()),
        dict(scrubber.names.stand_ins) if scrubber.names is not None else {},
    )


def _status(subject: ClusterInspection) -> Mapping[str, Any] | TarnError | None:
    if not subject.asks:
        return subject.unknown
    try:
        return subject.status()
    except TarnError as error:
        return error


def _first(
    subject: ClusterInspection, status: Mapping[str, Any] | TarnError | None
) -> Iterator[Part]:
    what = "state, size, limits, instances, followers, faults"
    if isinstance(status, Mapping):
        yield of_json(_STATUS, what, dict(status))
        wrong = "a sentence for each thing that is not as desired"
        yield of_text("cluster/why.txt", wrong, subject.why(status))
    else:
        why = f"[{status.code}] {status}" if status is not None else "there is no cluster to ask"
        yield left_out(_STATUS, what, why)


def _gather(
    subject: ClusterInspection,
    wanted: BundleOptions,
    status: Mapping[str, Any] | TarnError | None,
    untold: str,
) -> Iterator[Part]:
    """Yield every part; *untold* is the reason why not all secrets are known, or ''."""
    most_bytes = int(wanted.log_mib * _MIB)
    silent = ""
    if isinstance(status, TarnError):
        silent = f"the master did not say: [{status.code}] {status}"
    elif status is not None and status.get("code"):  # the status of a master that is missing
        silent = f"no master is at work: {status.get('reason')}"
    offers = (
        *MasterPages(subject, silent).offers(),
        *kept_offers(subject.directory, subject.spec, most_bytes),
        *_log_offers(subject, status, most_bytes, "" if wanted.unsearched_logs else untold),
        *machine_offers(subject),
        *examined_offers(subject),
    )
    for number, offer in enumerate(offers):
        if offer.path.partition("/")[0] in wanted.without:
            yield left_out(offer.path, offer.what, "it was left out on request")
            continue
        subject.context.progress(Progress("gathering", offer.what, number, len(offers)))
        yield from gathered(offer)


def _log_offers(
    subject: ClusterInspection,
    status: Mapping[str, Any] | TarnError | None,
    most_bytes: int,
    untold: str,
) -> Iterator[Offer]:
    what = "the last of each log"
    if untold:
        yield Offer("logs/…", what, lambda: left_out("logs/…", what, f"{untold}; {_UNSEARCHED}"))
        return
    folder = subject.directory / "logs" if subject.directory is not None else None
    if folder is not None and folder.is_dir():
        yield Offer("logs/", what, lambda: of_files(folder, "logs", most_bytes))
    elif subject.asks:
        yield Offer(
            "logs/",
            what,
            lambda: of_runtime(subject.logs, _logged(subject, status), "logs", most_bytes),
        )


def _logged(subject: ClusterInspection, status: object) -> tuple[str, ...]:
    """Return the instances whose logs are included; the runtime knows those of an ended cluster."""
    ids = _ids(status)
    if ids:
        return ids
    try:
        return subject.logged()
    except TarnError:
        return ()  # reading the master's log reports the same error


def _ids(status: object) -> tuple[str, ...]:
    """Return the ids of live instances, then of ended ones, the newest first."""
    if not isinstance(status, Mapping):
        return ()
    alive = [str(one["id"]) for one in status.get("instances") or ()]
    over = [str(one["id"]) for one in status.get("ended") or ()]
    return tuple(dict.fromkeys((*alive, *reversed(over))))


def _names(subject: ClusterInspection, parts: Sequence[Part]) -> Pseudonyms:
    """Return the people and machines of all parts; any part may be the one that names them."""
    names = people_and_machines(subject.spec, subject.context.environ)
    for part in parts:
        names.learn(part.left_out)
        if part.path != VERSIONS:  # 4.12.0.88 is not an address there
            names.learn(part.text)
    return names


def _cleaned(
    parts: Sequence[Part], scrubber: Scrubber
) -> tuple[tuple[Part, ...], Mapping[str, Mapping[str, int]]]:
    """Return *parts* without secrets, and by path the numbers of removed secrets."""
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
    """Search once more what would be written: a secret here is a bug in TARN."""
    for name, text in files.items():
        kinds = scrubber.told(text) + scrubber.told(name)
        if kinds:
            raise TarnError(
                f"{name} would still contain: {', '.join(kinds)}; nothing was written",
                code="TARN-3843",
                next_step=f"Report it, and leave that part out: --without {name.partition('/')[0]}",
            )
