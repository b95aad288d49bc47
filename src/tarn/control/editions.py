"""Editions of a spec: what a client sent, and what a master makes of it.

A fleet that is being updated has two: each instance is launched, warmed up and tested as its own
edition says, while the master keeps to the one that it goes to.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import attrs

from tarn import config
from tarn.config.document import parse as parse_yaml
from tarn.control.discoveries import rules_of
from tarn.control.policy import Scaling
from tarn.control.warmup import WarmupRequest
from tarn.domain import ClusterSpec, EditionFiles, Launch, Secret
from tarn.domain.fleet import Rules
from tarn.domain.spec import NO_TEST
from tarn.errors import ConfigError, LaunchError
from tarn.plain.master_files import SECRETS, SMOKE, SPEC, STAGED, TEST_REQUESTS, TRITON_SECRET
from tarn.triton.response_cache import is_configured
from tarn.triton.test_files import parse
from tarn.triton.test_requests import WARM_UP, TestRequest
from tarn.triton.test_sources import KnownTests

__all__ = ["Edition", "Editions", "edition_files", "files_in", "spec_of", "tests_of"]

Files = Mapping[str, str]


@attrs.frozen
class Edition:
    """What a master needs to run one edition of the spec."""

    files: EditionFiles
    rules: Rules
    launch: Launch
    warmup: tuple[WarmupRequest, ...]
    """What an instance must answer before it is ready."""
    tests: KnownTests
    scaling: Scaling
    plain: Mapping[str, Any]
    """The spec as plain data, with secrets masked."""

    @property
    def spec(self) -> ClusterSpec:
        """The spec as a value."""
        return self.rules.spec


class Editions:
    """Makes editions, and keeps those that a fleet has; any thread.

    Args:
        directory: The master's; the secrets of instances lie there, and are never part of an
            edition.
        policy: Makes the scaling policy of a spec.
    """

    def __init__(self, directory: Path, policy: Callable[[ClusterSpec], Scaling]) -> None:
        self._directory, self._policy = directory, policy
        self._lock = threading.Lock()
        self._made: dict[str, Edition] = {}
        self._present: Edition | None = None

    @property
    def present(self) -> Edition:
        """The edition that the master keeps to; `keep_to` was called before."""
        assert self._present is not None
        return self._present

    def keep_to(self, files: EditionFiles) -> Edition:
        """Make the edition of *files* the present one, and return it; raises as `of` does."""
        self._present = edition = self.of(files)
        return edition

    def made_of(self, files: Files) -> EditionFiles:
        """Return the edition of *files*, which `of` has made when this returns; raises as it."""
        edition = edition_files(files)
        self.of(edition)
        return edition

    def of(self, files: EditionFiles) -> Edition:
        """Return the edition of *files*; makes it at the first time, which may take long.

        Raises:
            TarnError: Its spec is invalid, or something is missing that its instances need.
            OSError: A file cannot be read.
            ValueError: A file does not have the content that a client writes.
        """
        with self._lock:
            found = self._made.get(files.digest)
        if found is not None:
            return found
        made = self._make(files)
        with self._lock:
            return self._made.setdefault(files.digest, made)

    def forget_others(self, files: Iterable[EditionFiles]) -> None:
        """Keep only the editions of *files*."""
        kept = {one.digest for one in files}
        with self._lock:
            self._made = {digest: one for digest, one in self._made.items() if digest in kept}

    def _make(self, files: EditionFiles) -> Edition:
        spec, content = spec_of(files.files), files.files
        location = _location(content)
        smoke = _requests(content.get(SMOKE), SMOKE)
        warmup = (*_warmup(spec, location), *(WarmupRequest.proving(one) for one in smoke))
        return Edition(
            files,
            rules_of(spec, files.spec_hash),
            self._launch(spec, location, files.spec_hash),
            warmup,
            tests_of(spec, content.get(TEST_REQUESTS), warmup),
            self._policy(spec),
            cast(dict[str, Any], config.redact(config.dump(spec))),
        )

    def _launch(self, spec: ClusterSpec, location: str, spec_hash: str) -> Launch:
        secrets = self._directory / SECRETS
        values = json.loads(secrets.read_bytes()) if secrets.exists() else {}
        return Launch(
            spec.models,
            spec.triton,
            spec.instance,
            location,
            spec_hash,
            {variable: Secret(value) for variable, value in values.items()},
            # Without the secret no instance may start: anybody could unload the models of one.
            _keys(self._directory / TRITON_SECRET) if spec.triton.restricted else None,
        )


def files_in(directory: Path) -> EditionFiles:
    """Return the edition whose files a client wrote into *directory*.

    Raises:
        OSError: A file is missing, or cannot be read.
        ConfigErrors: The spec is invalid.
    """
    names = (SPEC, STAGED, TEST_REQUESTS, SMOKE)
    paths = {name: directory / name for name in names}
    return edition_files(
        {name: path.read_text("utf-8") for name, path in paths.items() if path.exists()}
    )


def edition_files(files: Files) -> EditionFiles:
    """Return the edition of *files*, with its names.

    Raises:
        ConfigErrors: The spec is invalid.
        ValueError: A file is missing, or does not have the content that a client writes.
    """
    content = json.dumps(dict(files), sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()[:12]
    return EditionFiles(digest, config.spec_hash(spec_of(files), _location(files)), files)


def spec_of(files: Files) -> ClusterSpec:
    """Return the spec of an edition's *files*.

    Raises:
        ConfigErrors: It is invalid.
    """
    # An empty environment, since the client has applied its own to the spec.
    return config.load(parse_yaml(files[SPEC], SPEC).plain, environ={}).spec


def _location(files: Files) -> str:
    staged = json.loads(files[STAGED])
    location = staged.get("location") if isinstance(staged, dict) else None
    if not isinstance(location, str) or not location:
        raise ValueError(f"{STAGED} does not say where the models are")
    return location


def _warmup(spec: ClusterSpec, repository: str) -> tuple[WarmupRequest, ...]:
    """Read each model's warm-up requests: ``<repository>/<model>/<instance.warmup>``."""
    pattern = spec.instance.warmup
    if pattern is None:
        return ()
    files = sorted(Path(repository).glob(f"*/{pattern}"))
    if not files:
        raise ConfigError(
            f"instance.warmup = '{pattern}' matches no file in any model of {repository}",
            right="a glob relative to a model's directory, like 'warmup/*.json'",
        )
    root = Path(repository)
    return tuple(
        WarmupRequest(f"/v2/models/{f.relative_to(root).parts[0]}/infer", f.read_bytes())
        for f in files
    )


def tests_of(spec: ClusterSpec, text: str | None, warmup: tuple[WarmupRequest, ...]) -> KnownTests:
    """Return the test requests of *spec*: those of its file, then those of *warmup*."""
    if spec.instance.test_request == NO_TEST:
        return KnownTests(off=True)
    warm = (
        TestRequest(
            one.path.removeprefix("/v2/models/").removesuffix("/infer"), one.body, source=WARM_UP
        )
        for one in warmup
        if one.proof is None
    )
    written = _requests(text, TEST_REQUESTS) if spec.instance.test_request is not None else ()
    return KnownTests((*written, *warm), cached=is_configured(spec.triton))


def _requests(text: str | None, name: str) -> tuple[TestRequest, ...]:
    """Return the requests in the content of a file.

    Raises:
        ConfigError: It does not hold valid requests.
    """
    if text is None:
        return ()
    requests, flaws = parse(text.encode())
    if flaws:
        found = f"{flaws[0].where} {flaws[0].found}".strip()
        raise ConfigError(found, code="TARN-2013", where=name, right=flaws[0].right)
    return requests


def _keys(path: Path) -> Secret:
    try:
        secret = path.read_text("ascii").strip()
    except OSError as error:
        raise _without(path, f"cannot be read ({error.strerror})") from error
    if not secret:
        raise _without(path, "is empty")
    return Secret(secret)


def _without(path: Path, found: str) -> LaunchError:
    return LaunchError(
        "master",
        f"{found}; the keys of triton.restricted are derived from it",
        code="TARN-3780",
        where=str(path),
        next_step="End the cluster with `tarn down` and start it again: `tarn up` makes the file.",
    )
