"""What `up` does: find, check, stage, submit."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn import config
from tarn.cluster.authority import authority
from tarn.cluster.difference import difference
from tarn.cluster.entries import reference
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.staging import examined, look, stage
from tarn.cluster.token import api_token, triton_secret
from tarn.cluster.uploads import uploads
from tarn.config.readings import text_of
from tarn.domain import ClusterSpec, Secret
from tarn.domain.master_files import API_TOKEN, TRITON_SECRET
from tarn.errors import (
    ConfigError,
    ConfigErrors,
    LaunchError,
    RefusedError,
    TarnError,
    UnreachableError,
)
from tarn.interfaces import ClusterRef, Deployer, Finding, Progress, Staged
from tarn.triton.folders import no_room, private_folder

__all__ = ["LaunchResult", "bring_up", "starting"]

Hear = Callable[[Progress], None]

SAYS_MORE = "`tarn doctor` checks everything that a start needs, and explains each problem."
_LEAST_BYTES = 65_536
"""Of the disk, for a cluster's files: with less even the first lines of a log would not fit."""
OTHER_UP_S = 30.0
"""How long another `up` of the same name may take to bring its master up."""


@attrs.frozen
class LaunchResult:
    """Where the master is, and whether this call started it."""

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

    Nothing is started, and nothing written but a staged copy, before every check has passed.
    *given* is the api token of ``--token`` or ``TARN_TOKEN``; it counts where ``api.token`` is
    ``auto``.

    Raises:
        ConfigErrors: What was written cannot run: every finding at once.
        LaunchError: The surroundings lack something, or the master did not come up.
        TarnError: A cluster of this name runs with another spec (code TARN-2102).
        UnreachableError: One was started under another runtime, which cannot be asked for it.
    """
    _nowhere_else(spec, environment)
    running = deployer.find(spec.name)
    if running is not None:
        _compare(spec, environment)
        if running.url is not None:
            _note_token(spec, environment, hear, given)
            return LaunchResult(running, started=False)
    hear(Progress("preflight", "checking the spec, the runtime and the model repository"))
    with _doctor_knows_more():
        findings = deployer.check(spec) if running is None else ()  # what runs holds what it needs
        _writable(environment.paths.home / "clusters")
        offered = environment.plugins()
        _refuse(
            (*findings, *authority(spec, offered), *examined(spec, offered, environment.environ)),
            spec,
            hear,
        )
    carried = uploads(spec, environment, hear)
    hear(Progress("staging", "preparing the model repository"))
    staged = _staged(spec, environment, hear)
    files = {**_files(spec, staged, environment, given), **carried}
    hear(Progress("launching", starting(spec)))
    try:
        return LaunchResult(deployer.submit(spec, staged, files), started=True)
    except RefusedError as refusal:  # somebody's `up` was faster
        winner = _winner(spec.name, environment, deployer, refusal)
        _compare(spec, environment)
        return LaunchResult(winner, started=False)


def _note_token(
    spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear, given: Secret | None
) -> None:
    """Say that a running cluster keeps its own api token, where another one was *given*."""
    kept = environment.paths.cluster(spec.name) / API_TOKEN
    if given is not None and kept.is_file() and kept.read_text("ascii") != given.reveal():
        found = f"TARN_TOKEN (or --token) is not used: '{spec.name}' runs with the token in {kept}"
        hear(Progress("preflight", f"note: {found}"))


@contextlib.contextmanager
def _doctor_knows_more() -> Iterator[None]:
    """Name who says more of what is amiss before anything was started."""
    try:
        yield
    except TarnError as error:
        error.add_note(SAYS_MORE)
        raise


def starting(spec: ClusterSpec) -> str:
    """Say what begins, and what a master waits for before it answers, which may take long."""
    own = [one for one in spec.discovery if one.required and not one.options.get("followers")]
    names = ", ".join(dict.fromkeys(one.use for one in own))
    waits = f"; it waits up to 30 s for what is required: {names}" if own else ""
    return f"starting the master of '{spec.name}'{waits}"


def _nowhere_else(spec: ClusterSpec, environment: ClusterEnvironment) -> None:
    """Refuse a name under which a cluster runs in another runtime: it would be lost from here."""
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
    name: str, environment: ClusterEnvironment, deployer: Deployer, refusal: RefusedError
) -> ClusterRef:
    """Wait for the master that another `up` starts."""
    until_s = environment.clock.now_s() + OTHER_UP_S
    while environment.clock.now_s() < until_s:
        running = deployer.find(name)
        if running is not None and running.url is not None:
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
        next_step=f"`tarn down -c {spec.name}` ends it; then `tarn up` starts it with this spec.",
    )


def _writable(directory: Path) -> None:
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


def _refuse(findings: Iterable[Finding], spec: ClusterSpec, hear: Hear) -> None:
    fatal = []
    for finding in findings:
        if finding.fatal:
            fatal.append(finding)
        else:
            hear(Progress("preflight", f"note: {finding.where}: {finding.found}"))
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


def _staged(spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear) -> Staged:
    staged = stage(spec, environment.plugins(), environment.context(hear))
    if "://" in spec.models.repository and staged.kind == "local":
        _refuse(look(staged.location, spec, environment.environ), spec, hear)
    return staged


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
