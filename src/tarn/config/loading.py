"""Merge file, environment and arguments, and read the result, with all errors at once."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from tarn.config import document
from tarn.config.aliases import by_name
from tarn.config.contradictions import contradictions
from tarn.config.draft import Draft
from tarn.config.legacy import Legacy
from tarn.config.offers import Offers, beyond, examine, quiet
from tarn.config.relative import make_absolute
from tarn.domain.changes import Effect, effect_of
from tarn.domain.facts import Secret
from tarn.domain.spec import NAME, ClusterSpec, ReplicasSpec
from tarn.errors import ConfigError, ConfigErrors, ProviderMissingError
from tarn.plain import Problem, describe, join, redact, structure, unstructure

__all__ = ["LoadedSpec", "dump", "explain", "load", "schema", "spec_hash"]

_UNBOUND = ReplicasSpec()


def choose_policy(draft: Draft) -> None:
    """Choose the policy ``target`` if *draft* has limits with room between them, and no policy."""
    # A user who writes ``replicas: {min: 1, max: 8}`` wants a size that changes. Default limits
    # are only for ``tarn scale``, so without written ones the size stays ``fixed``.
    if draft.get("scaling.use") is not None:
        return
    low, high = draft.get("replicas.min"), draft.get("replicas.max")
    if low is None and high is None:
        return
    low, high = _UNBOUND.min if low is None else low, _UNBOUND.max if high is None else high
    if type(low) is int and type(high) is int and low < high:
        draft.put(("scaling", "use"), "target", "replicas.min is below replicas.max")


# The name of a partial spec without one.
UNNAMED = "unnamed"

# Origin of a nested argument; that of an option of the command line is ``argument --x``.
_OVERLAY = "argument: "
_TOKEN = re.compile(r"auto|none|file:.+|env:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen
class LoadedSpec:
    """A spec, with the origins of its values and notes."""

    spec: ClusterSpec
    origins: Mapping[str, str] = attrs.field(hash=False)
    """By dotted path of every leaf: ``tarn.yaml:12``, ``environment MIN_CONTAINERS``,
    ``argument --min-instances``, ``argument: replicas.min`` or ``default``."""
    notes: tuple[str, ...] = ()
    """Options that have no effect (code TARN-2005), a line each."""
    api_token: Secret | None = None
    """The token of ``--token`` or ``TARN_TOKEN``, for use if ``api.token`` is ``auto``."""


def load(  # noqa: PLR0913 (the layers, and how to read them)
    source: Path | str | Mapping[str, Any] | None,
    *,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    aliases: Mapping[str, object] = MappingProxyType({}),
    environ: Mapping[str, str],
    plugins: Offers | None = None,
    partial: bool = False,
) -> LoadedSpec:
    """Return the spec that file, environment and arguments specify together.

    Arguments and aliases take precedence over the environment, the environment over the file, the
    file over the defaults. A master passes an empty *environ*, because the client has applied its
    environment to the spec already.

    Args:
        source: A YAML file, a folder with a ``tarn.yaml``, plain data, or None: arguments only.
        arguments: Plain data in the shape of the file: ``{"replicas": {"min": 2}}``.
        aliases: Options of the Java TARN, by long name; None and False mean not given.
        environ: The environment, from `tarn.config.environ`.
        plugins: Also check every choice of a provider against these.
        partial: Also accept a spec without models or a name: its repository is empty, its name
            `UNNAMED`, and it cannot be started.

    Raises:
        ConfigErrors: Every error, each with its place, the value, and what would be right.
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
        draft.discard("models.repository")  # so that it is reported as missing
    errors = [*legacy.errors, *_name(draft, folder, UNNAMED if partial else "")]
    lacking = examine(draft, plugins, folder, home) if plugins is not None else ()
    spec, found = _read(draft, tuple(lacking), plugins)
    if source is None and not partial and draft.get("models.repository") is None:
        here = "there is no tarn.yaml here, and no option names the models"
        errors.append(document.missing(Path.cwd() / "tarn.yaml", here))
        found = tuple(one for one in found if one.path not in {"models", "models.repository"})
    found, told = quiet(draft, found)
    legacy.notes.extend(told)
    errors += [_located(problem, draft) for problem in found]
    if spec is None or errors:
        together = ConfigErrors(errors)
        # Only missing providers: the spec may be right, so the exit code says what is missing.
        if all(error.code == ProviderMissingError.default_code for error in errors):
            together.exit_code = ProviderMissingError.exit_code
        raise together
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
    """Return the spec, and every problem of the draft."""
    spec, wrong = structure(ClusterSpec, draft.plain)
    together = tuple(_contradictions(spec, draft, wrong, plugins))
    return spec, (*wrong, *_wrong_token(draft), *lacking, *together)


def _first(source: Path | str | Mapping[str, Any] | None) -> tuple[Draft, Path]:
    """Return the lowest layer, and the folder for relative paths."""
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
    """Use the folder's name if none was written; *last* if the folder's name is invalid."""
    if draft.get("name") is not None:
        return []
    name = re.sub(r"[^a-z0-9-]+", "-", folder.name.lower()).strip("-")
    if last and not NAME.fullmatch(name):
        name = last
    if not NAME.fullmatch(name):
        found = f"name is missing, and the folder's name '{folder.name}' cannot be used instead"
        right = "A name has 1 to 40 of a-z, 0-9 and -"
        draft.put(("name",), "any", "")  # so that it is not also reported as missing
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
    """Yield contradictions, after errors those between the parts that could be read."""
    left_out = {problem.path for problem in wrong}
    if spec is None:
        spec, _ = structure(ClusterSpec, _without(draft, left_out))
    if spec is None:
        return
    for one in contradictions(spec):
        if left_out.isdisjoint((one.path, *one.others)):
            yield Problem(one.path, "TARN-2003", f" {one.text}")
    yield from beyond(spec, plugins) if plugins is not None else ()


def _without(draft: Draft, paths: set[str]) -> dict[str, Any]:
    """Return the draft's data without the values at *paths*, so that the rest can be read."""

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


def _origins(spec: ClusterSpec, draft: Draft) -> Mapping[str, str]:
    """Return the origin of every leaf."""
    written = {path for path, _ in leaves(draft.plain)}
    return {
        path: draft.origin(path) if _within(path, written) else "default"
        for path, _ in leaves(unstructure(spec))
    }


def _within(path: str, written: set[str]) -> bool:
    """Tell whether *path*, or a value around it, was written as one value."""
    while path:
        if path in written:
            return True
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return False


def leaves(plain: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of each scalar, empty mapping and empty list."""
    if isinstance(plain, dict) and plain:
        for key, value in plain.items():
            yield from leaves(value, join(path, key))
    elif isinstance(plain, list) and plain:
        for index, value in enumerate(plain):
            yield from leaves(value, join(path, index))
    else:
        yield path, plain


# Keys that choose providers, and whether each is a list of choices.
_KINDS = {"runtime": False, "scaling": False, "authorizer": False, "affinity": False}
_KINDS |= {"discovery": True, "secrets": True}


def dump(spec: ClusterSpec) -> dict[str, Any]:
    """Return plain data with units; ``load(dump(spec), environ={}).spec == spec``.

    Secrets in the spec (in ``triton.env``, in options) are not masked: see `redact`.
    """
    plain: dict[str, Any] = unstructure(spec)
    return plain


def explain(loaded: LoadedSpec) -> list[tuple[str, str, str]]:
    """Return (path, value as it would be written, origin) of every leaf, with secrets masked."""
    return [
        (
            path,
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
            loaded.origins.get(path, "default"),
        )
        for path, value in leaves(redact(dump(loaded.spec)))
    ]


def spec_hash(spec: ClusterSpec, location: str = "") -> str:
    """Return 12 hex digits of what defines an instance: what an update replaces instances for.

    *location* is where its models are: a copy of other content is at another place.
    """
    decisive = {
        path: value
        for path, value in leaves(unstructure(spec))
        if effect_of(path)[0] is Effect.ROLLING
    }
    # Independent of the order in the file, and of how characters are encoded.
    text = json.dumps(
        [decisive, location], sort_keys=True, separators=(",", ":"), ensure_ascii=True
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def schema(plugins: Offers | None = None) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``tarn.yaml``, for editors.

    With *plugins*, each ``use`` lists the providers, and ``options`` depend on it.
    """
    described: dict[str, Any] = describe(ClusterSpec)
    properties = described["properties"]
    described["required"] = ["models"]  # the folder's name stands in for the name
    properties["models"] = {"anyOf": [{"type": "string"}, properties["models"]]}
    for key, several in _KINDS.items():
        choice = properties[key]["items"] if several else properties[key]
        choice = _choice(choice, plugins.offers(key) if plugins is not None else {})
        short = {"anyOf": [{"type": "string"}, choice]}
        properties[key] = {**properties[key], "items": short} if several else short
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tarn.yaml",
        **described,
    }


def _choice(choice: dict[str, Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    if not offered:
        return choice
    use = {**choice["properties"]["use"], "enum": list(offered)}
    rules = [
        {
            "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
            "then": {"properties": {"options": describe(factory.settings)}},
        }
        for name, factory in offered.items()
    ]
    properties = {**choice["properties"], "use": use}
    return {**choice, "properties": properties, "allOf": rules}
