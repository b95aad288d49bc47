"""Lay file, environment and arguments over one another, and read the result: all errors at once."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from tarn.config import document
from tarn.config.abilities import beyond, quiet
from tarn.config.aliases import by_name
from tarn.config.draft import Draft
from tarn.config.legacy import Legacy
from tarn.config.offers import Offers, examine, idle
from tarn.config.policy import choose_policy
from tarn.config.relative import make_absolute
from tarn.domain.contradictions import problems
from tarn.domain.perimeter import perimeter_problems
from tarn.domain.secret import Secret
from tarn.domain.spec import NAME, ClusterSpec
from tarn.errors import ConfigError, ConfigErrors, ProviderMissingError
from tarn.plain import Problem, join, structure, unstructure

__all__ = ["UNNAMED", "LoadedSpec", "load"]

UNNAMED = "unnamed"
"""The name of a spec that has none, where none is needed."""

_OVERLAY = "argument: "
"""Marks what the nested arguments gave; an option of the command line is ``argument --x``."""
_TOKEN = re.compile(r"auto|none|file:.+|env:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen
class LoadedSpec:
    """A spec, and how it came about."""

    spec: ClusterSpec
    origins: Mapping[str, str] = attrs.field(hash=False)
    """Dotted path of every leaf to ``tarn.yaml:12``, ``environment MIN_CONTAINERS``,
    ``argument --min-instances``, ``argument: replicas.min`` or ``default``."""
    notes: tuple[str, ...] = ()
    """What a person should know: options that do nothing here (code TARN-2005), a line each."""
    api_token: Secret | None = None
    """The token of ``--token`` or ``TARN_TOKEN``; to be used where ``api.token`` is ``auto``."""


def load(  # noqa: PLR0913 (the layers, and how to read them)
    source: Path | str | Mapping[str, Any] | None,
    *,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    aliases: Mapping[str, object] = MappingProxyType({}),
    environ: Mapping[str, str],
    plugins: Offers | None = None,
    partial: bool = False,
) -> LoadedSpec:
    """Return the spec that file, environment and arguments give together.

    Arguments and aliases win over the environment, the environment over the file, the file over
    the defaults. A master that reads the spec it was given passes an empty *environ*: that spec
    is final, and the environment must not change it again.

    Args:
        source: A YAML file, a folder with a ``tarn.yaml``, plain data, or None: arguments only.
        arguments: Plain data shaped like the file, laid over it: ``{"replicas": {"min": 2}}``.
        aliases: Options of the Java TARN, by long name; None and False mean not given.
        environ: The environment, from `tarn.config.environ`.
        plugins: Also hold every choice of a provider against what these offer.
        partial: Also read what names no models yet, and has no name: the repository is empty
            then, and the name `UNNAMED`. No cluster can be started with it.

    Raises:
        ConfigErrors: Everything that is wrong, each with place, value and what would be right.
        PluginError: A plugin's settings class cannot be read.
    """
    draft, folder = _first(source)
    legacy = Legacy(draft)
    legacy.apply(aliases, environ)
    draft.merge(arguments, lambda path: f"{_OVERLAY}{path}")
    legacy.scale()
    legacy.log_verbose(environ)
    home = environ.get("HOME", "")
    make_absolute(draft, folder, Path.cwd(), home)
    choose_policy(draft)
    if partial and draft.get("models.repository") is None:
        draft.put(("models", "repository"), "", "nobody")
    elif not partial and draft.get("models.repository") == "":
        draft.discard("models.repository")  # what is empty is missing
    errors = [*legacy.errors, *_name(draft, folder, UNNAMED if partial else "")]
    lacking = examine(draft, plugins, folder, home) if plugins is not None else ()
    spec, found = _read(draft, tuple(lacking), plugins)
    if source is None and not partial and draft.get("models.repository") is None:
        here = "there is no tarn.yaml here, and no option names the models"
        errors.append(document.missing(Path.cwd() / "tarn.yaml", here))
        found = tuple(one for one in found if one.path not in {"models", "models.repository"})
    found, told = quiet(draft, found)
    legacy.notes.extend(told)
    if plugins is not None:
        legacy.notes.extend(idle(draft))
    errors += [_located(problem, draft) for problem in found]
    if spec is None or errors:
        raise _together(errors)
    given = legacy.api_token if spec.api.token == "auto" else None  # noqa: S105 (a kind)
    if legacy.api_token and given is None and spec.api.token != "env:TARN_TOKEN":  # noqa: S105
        kind = spec.api.token.partition(":")[0]
        legacy.notes.append(
            f"TARN_TOKEN (or --token) is not used: api.token is '{kind}'; it is used only with "
            "'auto'"
        )
    token = Secret(given) if given else None
    return LoadedSpec(spec, _origins(spec, draft), tuple(legacy.notes), token)


def _read(
    draft: Draft, lacking: tuple[Problem, ...], plugins: Offers | None
) -> tuple[ClusterSpec | None, tuple[Problem, ...]]:
    """Return the spec, and everything that is wrong with the draft."""
    spec, wrong = structure(ClusterSpec, draft.plain)
    contradictions = tuple(_contradictions(spec, draft, wrong, plugins))
    return spec, (*wrong, *_wrong_token(draft), *lacking, *contradictions)


def _first(source: Path | str | Mapping[str, Any] | None) -> tuple[Draft, Path]:
    """Return the lowest layer, and the folder at which relative paths start."""
    if isinstance(source, Path | str):
        path = Path(source).absolute()
        path = path / "tarn.yaml" if path.is_dir() else path
        read = document.read(path)
        return Draft(read.plain, read.origins), path.parent
    draft = Draft({}, {})
    if source is not None:
        draft.merge(source, lambda path: f"{_OVERLAY}{path}")
    return draft, Path.cwd()


def _name(draft: Draft, folder: Path, last: str) -> list[ConfigError]:
    """Give the folder's name where none was written; *last* where that is none either."""
    if draft.get("name") is not None:
        return []
    name = re.sub(r"[^a-z0-9-]+", "-", folder.name.lower()).strip("-")
    if last and not NAME.fullmatch(name):
        name = last
    if not NAME.fullmatch(name):
        found = f"name is missing, and the folder's name '{folder.name}' cannot be used instead"
        right = "A name has 1 to 40 of a-z, 0-9 and -"
        draft.put(("name",), "any", "")  # said once is enough
        return [ConfigError(found, code="TARN-2002", right=right, next_step="Write 'name: …'")]
    draft.put(("name",), name, "the folder's name")
    return []


def _wrong_token(draft: Draft) -> Iterator[Problem]:
    token = draft.get("api.token")
    if isinstance(token, str) and not _TOKEN.fullmatch(token):
        yield Problem(
            "api.token", "TARN-2002", ": must be 'auto', 'none', 'file:PATH' or 'env:NAME'",
            "Never write the token itself into a configuration",
        )  # fmt: skip


def _contradictions(
    spec: ClusterSpec | None,
    draft: Draft,
    wrong: tuple[Problem, ...],
    plugins: Offers | None,
) -> Iterator[Problem]:
    """Yield contradictions; with *wrong* parts, those between the parts that could be read."""
    left_out = {problem.path for problem in wrong}
    if spec is None:
        spec, _ = structure(ClusterSpec, _without(draft, left_out))
    if spec is None:
        return
    for path, text in (*problems(spec), *perimeter_problems(spec.api)):
        if not any(bad in (path, *text.replace(";", " ").split()) for bad in left_out):
            yield Problem(path, "TARN-2003", f" {text}")
    yield from beyond(spec, plugins) if plugins is not None else ()


def _without(draft: Draft, paths: set[str]) -> dict[str, Any]:
    """Return the draft's data without what lies at *paths*, so that the rest can be read."""

    def kept(value: Any, path: str, depth: int = 0) -> Any:
        if depth > 50:  # noqa: PLR2004 (deeper is an error already)
            return None
        if isinstance(value, dict):
            items = {key: (item, join(path, key)) for key, item in value.items()}
            return {k: kept(v, at, depth + 1) for k, (v, at) in items.items() if at not in paths}
        if isinstance(value, list):
            items_at = [(item, join(path, index)) for index, item in enumerate(value)]
            return [kept(v, at, depth + 1) for v, at in items_at if at not in paths]
        return value

    plain: dict[str, Any] = {"name": "any", **kept(draft.plain, "")}
    models = plain.get("models")
    plain["models"] = {"repository": "/any", **(models if isinstance(models, dict) else {})}
    return plain


def _located(problem: Problem, draft: Draft) -> ConfigError:
    written = draft.text(problem.path)
    if written is not None:
        problem = problem.as_written(written)
    step = problem.next_step
    if problem.code == "TARN-2001" and problem.path in by_name and by_name[problem.path].target:
        step = f"Did you mean '{by_name[problem.path].target}'?"
    where = draft.origin(problem.path)
    return ConfigError(
        problem.found,
        code=problem.code,
        where="arguments" if where.startswith(_OVERLAY) else where,
        right=problem.right,
        next_step=step,
    )


def _together(errors: list[ConfigError]) -> ConfigErrors:
    together = ConfigErrors(errors)
    if all(error.code == ProviderMissingError.default_code for error in errors):
        together.exit_code = ProviderMissingError.exit_code
    return together


def _origins(spec: ClusterSpec, draft: Draft) -> Mapping[str, str]:
    """Return the origin of every leaf."""
    written = {path for path, _ in leaves(draft.plain)}
    return {
        path: draft.origin(path) if _within(path, written) else "default"
        for path, _ in leaves(unstructure(spec))
    }


def _within(path: str, written: set[str]) -> bool:
    """Whether *path*, or what it stands in, was written as one value."""
    while path:
        if path in written:
            return True
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return False


def leaves(plain: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of everything that is not a mapping or list, or an empty one."""
    if isinstance(plain, dict) and plain:
        for key, value in plain.items():
            yield from leaves(value, join(path, key))
    elif isinstance(plain, list) and plain:
        for index, value in enumerate(plain):
            yield from leaves(value, join(path, index))
    else:
        yield path, plain
