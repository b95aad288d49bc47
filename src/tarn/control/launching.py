"""Read what a master launches its instances with, from the files in its directory."""

import json
from pathlib import Path

from tarn import config
from tarn.control.warmup import WarmupRequest
from tarn.domain import ClusterSpec, Launch, Secret
from tarn.domain.spec import NO_TEST
from tarn.errors import ConfigError, LaunchError
from tarn.plain.master_files import SECRETS, STAGED, TEST_REQUESTS, TRITON_SECRET
from tarn.triton.response_cache import is_configured
from tarn.triton.test_files import parse
from tarn.triton.test_requests import WARM_UP, TestRequest
from tarn.triton.test_sources import KnownTests

__all__ = ["launch_in", "tests_in", "warmup_in"]


def launch_in(directory: Path, spec: ClusterSpec) -> Launch:
    """Return the launch of instances of *spec*; the master has its files in *directory*.

    Raises:
        OSError: A file is missing, or cannot be read.
        ValueError: A file does not have the content that a client writes.
        LaunchError: Parts of Triton's API are to be restricted, and the secret for their keys is
            missing.
    """
    staged = json.loads((directory / STAGED).read_bytes())
    secrets = directory / SECRETS
    values = json.loads(secrets.read_bytes()) if secrets.exists() else {}
    return Launch(
        spec.models,
        spec.triton,
        spec.instance,
        staged["location"],
        config.spec_hash(spec),
        {variable: Secret(value) for variable, value in values.items()},
        # Without the secret no instance may start: anybody could unload the models of one.
        _keys(directory / TRITON_SECRET) if spec.triton.restricted else None,
    )


def warmup_in(spec: ClusterSpec, repository: str) -> tuple[WarmupRequest, ...]:
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


def tests_in(directory: Path, spec: ClusterSpec, warmup: tuple[WarmupRequest, ...]) -> KnownTests:
    """Return the test requests of *spec*: those of its file, then those of *warmup*.

    Raises:
        OSError: The file is missing, or cannot be read.
        ConfigError: The file does not hold valid test requests.
    """
    if spec.instance.test_request == NO_TEST:
        return KnownTests(off=True)
    written: tuple[TestRequest, ...] = ()
    if spec.instance.test_request is not None:
        path = directory / TEST_REQUESTS
        written, flaws = parse(path.read_bytes())
        if flaws:
            found = f"{flaws[0].where} {flaws[0].found}".strip()
            raise ConfigError(found, code="TARN-2013", where=str(path), right=flaws[0].right)
    warm = (
        TestRequest(
            one.path.removeprefix("/v2/models/").removesuffix("/infer"), one.body, source=WARM_UP
        )
        for one in warmup
    )
    return KnownTests((*written, *warm), cached=is_configured(spec.triton))


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
