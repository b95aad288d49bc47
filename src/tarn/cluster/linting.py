"""What `tarn lint` does: stage, look, ask the rules, repair."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.domain.lint import LintFinding, Model, Repository
from tarn.errors import ConfigError, RepositoryError, StorageError
from tarn.interfaces import Progress
from tarn.triton import fitting, lint, mounts

__all__ = ["LintReport", "examine"]

MOST_ROUNDS = 4
"""A repair may bring a file to light that needs another one; it never needs more."""


@attrs.frozen
class LintReport:
    """What a repository holds, and what is wrong with it."""

    where: str
    """What the user named, without credentials."""
    models: int
    findings: tuple[LintFinding, ...]
    """What is left after the repairs, ordered by place."""
    repaired: tuple[str, ...] = ()
    """The lines of a diff of what was repaired."""


def examine(
    target: str,
    environment: ClusterEnvironment,
    hear: Callable[[Progress], None],
    *,
    repair: bool,
    ignore: Collection[str] = (),
) -> LintReport:
    """Return what every rule finds in the repository at *target*, a path or a URI.

    A URI is staged as `up` does, and its copy is looked at; only a path is repaired. Findings
    whose code is in *ignore* are neither said nor repaired.

    Raises:
        ConfigError: A repair was asked for what a URI names.
        RepositoryError: There is no directory at *target*.
        ProviderMissingError: What reads a ``config.pbtxt`` is not installed.
        StorageError: It cannot be read, copied or repaired.
    """
    if repair and "://" in target:
        raise ConfigError(
            "--fix repairs a directory only; the repository of a URI is checked in a copy",
            next_step="Fix the original, then copy it there again.",
        )
    rules = environment.plugins().lint_rules()
    path, where = _staged(target, environment, hear)
    schema = lint.load()
    here = fitting.backends_of(None, {}, environment.environ)

    def lacks(model: Model) -> str:
        backend = here.lacks(model) if here else ""
        return here.without("it", backend) if here and backend else ""

    def look() -> _LintPass:
        seen = attrs.evolve(_looked(path, where, schema), lacks=lacks)
        found = lint.findings(seen, rules)
        return _LintPass(seen, tuple(one for one in found if one.code not in ignore))

    if repair:
        return _repaired(path, look)
    return _report(look())


@attrs.frozen
class _LintPass:
    repository: Repository
    findings: tuple[LintFinding, ...]


def _report(seen: _LintPass, done: Sequence[str] = ()) -> LintReport:
    repository = seen.repository
    return LintReport(repository.where, len(repository.models), seen.findings, tuple(done))


def _repaired(path: Path, look: Callable[[], _LintPass]) -> LintReport:
    """Repair and look again, until nothing is left that can be repaired."""
    done: list[str] = []
    seen = look()
    for _ in range(MOST_ROUNDS):
        repairs = lint.gather(seen.findings)
        if not repairs:
            break
        models = seen.repository.models
        texts = {model.config.file: model.config.text for model in models if model.config}
        lines = lint.carry_out(path, repairs, texts)
        done += [line for line in lines if not (line.startswith("#") and line in done)]
        if all(line.startswith("#") for line in lines):
            break
        seen = look()
    return _report(seen, done)


def _staged(
    target: str, environment: ClusterEnvironment, hear: Callable[[Progress], None]
) -> tuple[Path, str]:
    """Return the directory to look at, and what to call it."""
    if "://" not in target:
        away = mounts.unanswered(Path(target), target)
        if away is not None:
            raise StorageError(
                "lint", away.found, code=away.code, where=target, next_step=away.next_step
            )
        return Path(target), target
    storage = environment.plugins().storage_for(target).create()
    staged = storage.resolve(target, environment.context(hear))
    if "://" in staged.location:
        raise RepositoryError(
            "lint",
            "is used in place, and cannot be checked from this machine",
            where=_without_credentials(target),
            next_step="Lint the directory that it was copied from.",
        )
    return Path(staged.location), _without_credentials(target)


def _without_credentials(uri: str) -> str:
    """Return scheme, host and path: a password or a signature may stand in the rest."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _looked(path: Path, where: str, schema: lint.Schema) -> Repository:
    try:
        return lint.scan(path, where, schema.parse)
    except OSError as error:
        raise RepositoryError(
            "lint",
            f"cannot be listed: {error.strerror}",
            where=where,
            right="Expected the directory that holds the model directories.",
        ) from error
