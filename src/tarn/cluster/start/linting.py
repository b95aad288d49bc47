"""`tarn lint`: stage a model repository, run the rules on it, repair it."""

from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import ClusterSpec
from tarn.errors import ConfigError, RepositoryError, StorageError
from tarn.interfaces import Progress
from tarn.interfaces.lint import LintFinding, Model, Repository
from tarn.triton import fitting, lint, mounts, response_cache

__all__ = ["LintReport", "examine"]

# A repair may reveal a file that needs a second one, but never more.
MOST_ROUNDS = 4


@attrs.frozen
class LintReport:
    """The findings in one repository."""

    where: str
    """What the user named, without credentials."""
    models: int
    findings: tuple[LintFinding, ...]
    """Those that are left after the repairs, ordered by place."""
    repaired: tuple[str, ...] = ()
    """The lines of a diff of the repairs."""


def examine(  # noqa: PLR0913 (what differs, by keyword)
    target: str,
    environment: ClusterEnvironment,
    hear: Callable[[Progress], None],
    *,
    repair: bool,
    ignore: Collection[str] = (),
    spec: ClusterSpec | None = None,
) -> LintReport:
    """Return what every rule finds in the repository at *target*, a path or a URI.

    A URI is copied as `up` does, and the copy is checked; only a path can be repaired. Findings
    with a code in *ignore* are neither reported nor repaired. *spec* is the cluster that will serve
    it; None: not known.

    Raises:
        ConfigError: *repair* is set, and *target* is a URI.
        RepositoryError: There is no directory at *target*.
        ProviderMissingError: The module that reads a ``config.pbtxt`` is not installed.
        StorageError: The repository cannot be read, copied or repaired.
    """
    if repair and "://" in target:
        raise ConfigError(
            "--fix repairs a directory only; the repository of a URI is checked in a copy",
            next_step="Fix the original, then copy it there again.",
        )
    rules = environment.plugins().lint_rules()
    path, where = _staged(target, environment, hear)
    schema = lint.load()
    keeps_answers = None if spec is None else response_cache.is_configured(spec.triton)
    here = fitting.backends_of(None, {}, environment.environ)

    def lacks(model: Model) -> str:
        backend = here.lacks(model) if here else ""
        return here.without("it", backend) if here and backend else ""

    def look() -> _LintPass:
        try:
            scanned = lint.scan(path, where, schema.parse)
            seen = attrs.evolve(scanned, lacks=lacks, keeps_answers=keeps_answers)
        except OSError as error:
            raise RepositoryError(
                "lint",
                f"cannot be listed: {error.strerror}",
                where=where,
                right="Expected the directory that holds the model directories.",
            ) from error
        found = lint.findings(seen, rules)
        return _LintPass(seen, tuple(one for one in found if one.code not in ignore))

    done: list[str] = []
    seen = _repaired(path, look, done) if repair else look()
    return LintReport(where, len(seen.repository.models), seen.findings, tuple(done))


@attrs.frozen
class _LintPass:
    repository: Repository
    findings: tuple[LintFinding, ...]


def _repaired(path: Path, look: Callable[[], _LintPass], done: list[str]) -> _LintPass:
    """Repair and check until no repair is left; add the lines of each repair to *done*."""
    seen = look()
    for _ in range(MOST_ROUNDS):
        repairs = lint.gather(seen.findings)
        if not repairs:
            break
        models = seen.repository.models
        texts = {model.config.file: model.config.text for model in models if model.config}
        lines = lint.carry_out(path, repairs, texts)
        # A line with '#' says why a repair was not made: each round says so once more.
        done += [line for line in lines if not (line.startswith("#") and line in done)]
        if all(line.startswith("#") for line in lines):
            break
        seen = look()
    return seen


def _staged(
    target: str, environment: ClusterEnvironment, hear: Callable[[Progress], None]
) -> tuple[Path, str]:
    """Return the directory to check, and its name in findings."""
    if "://" not in target:
        away = mounts.unanswered(Path(target), target)
        if away is not None:
            raise StorageError(
                "lint", away.found, code=away.code, where=target, next_step=away.next_step
            )
        return Path(target), target
    # Scheme, host and path only: the rest of a URI may hold a password or a signature.
    parts = urlsplit(target)
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    storage = environment.plugins().storage_for(target).create()
    staged = storage.resolve(target, environment.context(hear))
    if "://" in staged.location:
        raise RepositoryError(
            "lint",
            "is used in place, and cannot be checked from this machine",
            where=where,
            next_step="Lint the directory that it was copied from.",
        )
    return Path(staged.location), where
