"""`up`: find a running cluster, or check, stage and submit a new one; and its dry run."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs

from tarn import config
from tarn.cluster.entries import reference
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.start import stores
from tarn.cluster.start.staging import authority, examined, guessed, look, stage
from tarn.cluster.start.uploads import uploads
from tarn.config.document import text_of
from tarn.domain import ClusterSpec, Secret
from tarn.errors import (
    ConfigError,
    ConfigErrors,
    LaunchError,
    RefusedError,
    TarnError,
    UnreachableError,
)
from tarn.interfaces import ClusterRef, Deployer, Finding, Progress, Staged
from tarn.plain import MASK, masked, redact
from tarn.plain.master_files import API_TOKEN, TRITON_SECRET
from tarn.triton.folders import no_room, private_folder

__all__ = [
    "LaunchResult",
    "api_token",
    "ask",
    "bring_up",
    "difference",
    "dry_run",
    "flat",
    "preflight",
    "starting",
    "triton_secret",
]

Hear = Callable[[Progress], None]

SAYS_MORE = "`tarn doctor` checks everything that a start needs, and explains each problem."
# Free disk that a start needs: with less even the first lines of a log would not fit.
_LEAST_BYTES = 65_536
# How long another `up` of the same name may take to bring its master up.
OTHER_UP_S = 30.0
_ABSENT = object()


@attrs.frozen
class LaunchResult:
    """The cluster's reference, and whether this call started it."""

    ref: ClusterRef
    started: bool


def bring_up(
    spec: ClusterSpec,
    environment: ClusterEnvironment,
    deployer: Deployer,
    hear: Hear,
    given: Secret | None = None,
) -> LaunchResult:
    """Start the cluster of *spec*, or attach to the one that runs with an equal spec.

    Before every check has passed, nothing is started, and only a staged copy is written.
    *given* (``--token`` or ``TARN_TOKEN``) is the api token if ``api.token`` is ``auto``.

    Raises:
        ConfigErrors: The spec cannot run; every finding at once.
        LaunchError: Something is missing around the spec, or the master did not start.
        TarnError: A cluster of this name runs with another spec (code TARN-2102).
        UnreachableError: A cluster of this name was started in a runtime that does not answer.
    """
    _nowhere_else(spec, environment)
    running = deployer.find(spec.name)
    if running is not None:
        _compare(spec, environment)
        if running.url is not None:
            _note_token(spec, environment, hear, given)
            return LaunchResult(running, started=False)
    hear(Progress("preflight", "checking the spec, the runtime and the model repository"))
    try:
        # A running cluster holds its resources already, so the runtime would find none free.
        preflight(spec, environment, () if running is not None else deployer.check(spec), hear)
    except TarnError as error:
        error.add_note(SAYS_MORE)
        raise
    carried = uploads(spec, environment, hear)
    hear(Progress("staging", "preparing the model repository"))
    staged = stage(spec, environment.plugins(), environment.context(hear))
    if "://" in spec.models.repository and staged.kind == "local":  # now that it is here
        _refuse(look(staged.location, spec, environment.environ), spec, hear)
    files = {**_files(spec, staged, environment, given), **carried}
    hear(Progress("launching", starting(spec)))
    try:
        return LaunchResult(deployer.submit(spec, staged, files), started=True)
    except RefusedError as refusal:  # another `up` of this name was faster
        return LaunchResult(_winner(spec, environment, deployer, refusal), started=False)


def _note_token(
    spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear, given: Secret | None
) -> None:
    """Note that a running cluster keeps its api token if another one was *given*."""
    kept = environment.paths.cluster(spec.name) / API_TOKEN
    if given is not None and kept.is_file() and kept.read_text("ascii") != given.reveal():
        found = f"TARN_TOKEN (or --token) is not used: '{spec.name}' runs with the token in {kept}"
        hear(Progress("preflight", found, note=True))


def preflight(
    spec: ClusterSpec, environment: ClusterEnvironment, findings: Iterable[Finding], hear: Hear
) -> None:
    """Raise on fatal findings: the runtime's *findings*, and those of this machine."""
    directory = environment.paths.home / "clusters"
    try:
        private_folder(directory)
        probe = directory / ".writable"
        try:
            probe.write_bytes(bytes(_LEAST_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise no_room(error, directory) or LaunchError(
            "client",
            f"cannot be written ({error.strerror})",
            where=str(directory),
            next_step="Set TARN_HOME to a directory that you may write.",
        ) from error
    offered = environment.plugins()
    seen = (*authority(spec, offered), *examined(spec, offered, environment.environ))
    _refuse((*findings, *seen), spec, hear)


def starting(spec: ClusterSpec) -> str:
    """Return a sentence about the start, with the providers that the master waits for."""
    own = [one for one in spec.discovery if one.required and not one.options.get("followers")]
    names = ", ".join(dict.fromkeys(one.use for one in own))
    waits = f"; it waits up to 30 s for what is required: {names}" if own else ""
    return f"starting the master of '{spec.name}'{waits}"


def _nowhere_else(spec: ClusterSpec, environment: ClusterEnvironment) -> None:
    """Refuse the name of a cluster that runs in another runtime."""
    # Its reference here would be overwritten, and the other cluster could not be found any more.
    directory = environment.paths.cluster(spec.name)
    kept = reference(directory)
    path = directory / "spec.yaml"
    if kept is None or kept.runtime in ("", spec.runtime.use) or not path.is_file():
        return
    try:
        runtime = config.load(path, environ={}).spec.runtime
        running = environment.deployer(runtime.use, runtime.options).find(spec.name)
    except TarnError as error:
        raise UnreachableError(
            f"a cluster of this name was started in the runtime '{kept.runtime}', and the "
            f"runtime did not say whether it still runs: {error.found}",
            where=spec.name,
            next_step=error.next_step
            or "Choose another name, or end that cluster first with `tarn down`.",
        ) from error
    if running is not None:
        _compare(spec, environment)


def _winner(
    spec: ClusterSpec, environment: ClusterEnvironment, deployer: Deployer, refusal: RefusedError
) -> ClusterRef:
    """Wait for the master that another `up` starts with an equal spec."""
    until_s = environment.clock.now_s() + OTHER_UP_S
    while environment.clock.now_s() < until_s:
        running = deployer.find(spec.name)
        if running is not None and running.url is not None:
            _compare(spec, environment)
            return running
        environment.rest(0.25)
    raise refusal


def _compare(spec: ClusterSpec, environment: ClusterEnvironment) -> None:
    path = environment.paths.cluster(spec.name) / "spec.yaml"
    old = config.dump(config.load(path, environ={}).spec)
    new = config.dump(spec)
    if old == new:
        return
    lines = difference(config.redact(old), config.redact(new)) or ("a secret value differs",)
    raise TarnError(
        "it runs with another spec:\n  " + "\n  ".join(lines),
        code="TARN-2102",
        where=spec.name,
        next_step="`tarn update` with the same options brings it to this spec, and says first what "
        "that changes.",
    )


def _refuse(findings: Iterable[Finding], spec: ClusterSpec, hear: Hear) -> None:
    fatal = []
    for finding in findings:
        if finding.fatal:
            fatal.append(finding)
        else:
            hear(Progress("preflight", f"{finding.where}: {finding.found}", note=True))
    if not fatal:
        return
    if any(finding.code.startswith("TARN-2") for finding in fatal):
        raise ConfigErrors([ConfigError(**_parts(finding)) for finding in fatal])
    first, *others = (LaunchError(spec.runtime.use, **_parts(finding)) for finding in fatal)
    if not others:
        raise first
    raise LaunchError(
        spec.runtime.use, "\n".join(str(error) for error in (first, *others)), code=first.code
    )


def _parts(finding: Finding) -> dict[str, Any]:
    return {
        "found": finding.found,
        "code": finding.code,
        "where": finding.where,
        "next_step": finding.next_step,
    }


def _files(
    spec: ClusterSpec, staged: Staged, environment: ClusterEnvironment, given: Secret | None
) -> Mapping[str, bytes]:
    directory = environment.paths.cluster(spec.name)
    kept = directory / API_TOKEN
    if given is not None and spec.api.token == "auto":  # noqa: S105 (a kind, not a secret)
        token: str | None = given.reveal()
    else:
        token = api_token(spec.api.token, environment.environ, kept)
    plain = text_of(config.dump(spec))
    files = {
        "spec.yaml": plain.encode(),
        "staged.json": json.dumps(attrs.asdict(staged)).encode(),
        TRITON_SECRET: triton_secret(directory / TRITON_SECRET),
    }
    return files if token is None else {**files, API_TOKEN: token.encode("ascii")}


def api_token(source: str, environ: Mapping[str, str], kept: Path) -> str | None:
    """Return the token that *source* (``api.token``) means; None if the API needs none.

    Args:
        source: ``auto``, ``none``, ``file:PATH`` or ``env:NAME``.
        environ: The client's environment.
        kept: File with the token of an earlier ``up``. ``auto`` uses it again, so that the
            followers of a cluster whose master is replaced keep their access.

    Raises:
        ConfigError: The file cannot be read, or the file or variable is empty.
    """
    kind, _, name = source.partition(":")
    match kind:
        case "none":
            return None
        case "auto":
            return (_read(kept) if kept.is_file() else "") or secrets.token_urlsafe(32)
        case "file":
            return _given(_read(Path(name).expanduser()), f"the file {name}")
        case "env":
            return _given(environ.get(name, "").strip(), f"the environment variable {name}")
        case _:
            raise ConfigError(
                "does not say where the token is",  # never the value: it may be the token itself
                where="api.token",
                right="Expected auto, none, file:PATH or env:NAME.",
            )


def triton_secret(kept: Path) -> bytes:
    """Return the secret for the restricted parts of Triton's API: 43 characters, 256 bits.

    Args:
        kept: File with the secret of an earlier ``up``, which is used again: a new master must
            know the keys of the instances that it takes over.

    Raises:
        ConfigError: The file cannot be read.
    """
    before = _read(kept, "triton.restricted") if kept.is_file() else ""
    return (before or secrets.token_urlsafe(32)).encode("ascii")


def _read(path: Path, where: str = "api.token") -> str:
    try:
        return path.read_text("ascii").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file {path} is not ASCII text", where=where) from error
    except OSError as error:
        raise ConfigError(
            f"the file {path} cannot be read ({error.strerror})",
            where=where,
            next_step="Make it readable by you, or name another one.",
        ) from error


def _given(token: str, place: str) -> str:
    if not token:
        raise ConfigError(f"{place} is missing or empty", where="api.token")
    return token


def dry_run(
    spec: ClusterSpec,
    origins: Mapping[str, str],
    environment: ClusterEnvironment,
    deployer: Deployer,
) -> dict[str, Any]:
    """Return the plan of a start as plain data, with secrets masked; see `StartPlan`.

    Starts nothing and writes nothing, so a repository that `up` would copy is not checked.
    """
    plugins = environment.plugins()
    running = deployer.find(spec.name) is not None
    plan = deployer.plan(spec, guessed(spec, plugins))
    # A running cluster holds its resources already, so the runtime would find none free.
    findings = () if running else deployer.check(spec)
    stored, unread = ((), ()) if running else stores.look(spec, environment)
    findings = (
        *findings,
        *unread,
        *authority(spec, plugins),
        *examined(spec, plugins, environment.environ),
    )
    return {
        "name": spec.name,
        "running": running,
        "spec": config.redact(config.dump(spec)),
        "origins": dict(origins),
        "commands": [[masked(word) for word in words] for words in plan.commands],
        "environment": {
            **cast(dict[str, object], redact(dict(plan.environ), free=True)),
            **dict.fromkeys(stores.given(stored), MASK),
        },
        "ask": ask(spec),
        "files": {what: masked(where) for what, where in plan.files.items()},
        "findings": [attrs.asdict(finding) for finding in findings],
    }


def ask(spec: ClusterSpec) -> dict[str, Any]:
    """Return the resources of one instance, the first size, and the sums for all instances."""
    resources, replicas = spec.instance.resources, spec.replicas
    first = replicas.min if replicas.initial is None else replicas.initial
    amounts = {
        "vcores": resources.vcores,
        "memory_mib": resources.memory_mib,
        "gpus": resources.gpus,
    }
    return {
        "instance": {**amounts, "gpu_resource": resources.gpu_resource},
        "replicas": {"initial": first, "min": replicas.min, "max": replicas.max},
        "initial": {name: amount * first for name, amount in amounts.items()},
        "max": {name: amount * replicas.max for name, amount in amounts.items()},
    }


def flat(plain: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield (dotted path, value) of every leaf; an empty mapping or list is a leaf."""
    if isinstance(plain, Mapping) and plain:
        for key, value in plain.items():
            yield from flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(plain, Sequence) and not isinstance(plain, str) and plain:
        for index, value in enumerate(plain):
            yield from flat(value, f"{path}[{index}]")
    else:
        yield path, plain


def difference(old: object, new: object) -> tuple[str, ...]:
    """Return a line ``path: old -> new`` for each leaf that differs, sorted by path."""
    before, after = dict(flat(old)), dict(flat(new))

    def shown(leaves: Mapping[str, object], path: str) -> str:
        return f"{leaves[path]!r}" if path in leaves else "(not set)"

    return tuple(
        f"{path}: {shown(before, path)} -> {shown(after, path)}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path, _ABSENT) != after.get(path, _ABSENT)
    )
