"""Which requests must reach the same instance, and by which key they are recognized.

A model with sequence batching keeps the state of a sequence in one instance: each request of the
sequence must go there. A *rule* says for some models how the key of a request is found; requests
with the same key go to the same instance. Load balancers and clients use the same rules.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from attrs.validators import and_, deep_iterable, ge, in_, instance_of, le, matches_re, max_len

__all__ = [
    "KEYS",
    "MOST_MODELS",
    "MOST_RULES",
    "SEQUENCE_HEADER",
    "AffinityRule",
    "AffinityStatus",
    "ModelTraits",
    "affinity_key",
    "ranked",
    "read_rules",
    "resolve_ensembles",
    "rule_for",
    "rules_json",
    "sequence_key",
    "traits_of",
]

KEYS = ("sequence", "header", "json", "body")
"""The kinds of keys: the id of a sequence, a header, a value in the body, the body itself."""
SEQUENCE_HEADER = "X-Sequence-Id"
"""The header by which a client may give the id of a sequence, also in gRPC's metadata."""
USUAL_HEADER = "X-TARN-Affinity"
# So that an answer, and what a load balancer keeps of it, stays small.
MOST_RULES = 64
MOST_MODELS = 4096
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_MOST_NAME = 1024
_MOST_PATH = 256
_MOST_IDLE_S = 8 * 86400.0
_MOST_BYTES = 1 << 20

# Triton's own default where a configuration names none.
TRITONS_IDLE_S = 1.0
_LARGEST = 2**64 - 1


@attrs.frozen
class ModelTraits:
    """What affinity needs to know of a model, as its configuration says it."""

    name: str
    sequence_batching: bool = False
    """It keeps state between the requests of a sequence, or an ensemble uses such a model."""
    max_sequence_idle_s: float = 0.0
    """How long Triton keeps the state of a sequence without requests; 0 without sequences."""
    response_cache: bool = False
    """Triton may answer equal requests from its cache."""
    steps: tuple[str, ...] = ()
    """The models that an ensemble calls."""


@attrs.frozen
class AffinityRule:
    """Which requests belong together. Of several rules the first that names a model counts."""

    models: tuple[str, ...] = attrs.field(
        default=(), validator=deep_iterable(and_(instance_of(str), max_len(_MOST_NAME)))
    )
    """The models; empty: every model."""
    key: str = attrs.field(default="sequence", validator=in_(KEYS))
    """What the key is: one of `KEYS`."""
    header: str = attrs.field(default=USUAL_HEADER, validator=matches_re(_HEADER))
    """For ``header``: the name of the header."""
    path: str = attrs.field(default="", validator=max_len(_MOST_PATH))
    """For ``json``: the names, and the numbers in lists, that lead to the value, with dots."""
    first_bytes: int = attrs.field(default=0, validator=[ge(0), le(_MOST_BYTES)])
    """For ``json`` and ``body``: how many bytes of it count; 0: all."""
    imbalance: int = attrs.field(default=0, validator=in_((0, *range(101, 1001))))
    """How much an instance may have of the mean load, in percent, before a key goes elsewhere; 0:
    a key never does."""
    idle_s: float = attrs.field(default=0.0, validator=[ge(0), le(_MOST_IDLE_S)])
    """How long a key keeps its instance after its last request, though others would be chosen by
    now; 0: a key is never kept, and goes where the hash says."""

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.key == "json" and not self.path:
            raise ValueError("path must not be empty where key is 'json'")
        if self.key == "sequence" and not (self.idle_s and not self.imbalance):
            raise ValueError("a sequence needs idle_s, and allows no imbalance")


@attrs.frozen
class AffinityStatus:
    """What a master knows of the rules at one moment."""

    rules: tuple[AffinityRule, ...] = ()
    complete: bool = False
    """False: the traits of a model that serves are not known yet, so that a rule may be missing."""


def rule_for(rules: Iterable[AffinityRule], model: str) -> AffinityRule | None:
    """Return the first rule that names *model*; None: its requests may go anywhere."""
    return next((rule for rule in rules if not rule.models or model in rule.models), None)


# -- the key of a request


def affinity_key(
    rule: AffinityRule,
    headers: Mapping[str, str],
    parameters: Mapping[str, object],
    body: bytes,
) -> bytes | None:
    """Return the key of a request; None: it has none, and may go anywhere.

    Args:
        rule: The rule of the request's model.
        headers: Its headers, or gRPC's metadata.
        parameters: The parameters of the request itself, as far as they are known without its body.
        body: Its body, of which only the JSON at the beginning is read; may be empty.
    """
    match rule.key:
        case "header":
            return _header(headers, rule.header) or None
        case "json":
            found = _at_path(body, rule.path)
            return None if found is None else _first(found, rule.first_bytes)
        case "body":
            return _first(body, rule.first_bytes) or None
    return (
        _sequence_text(_header(headers, SEQUENCE_HEADER))
        or sequence_key(parameters.get("sequence_id"))
        or _sequence_in(body)
    )


def _header(headers: Mapping[str, str], name: str) -> bytes:
    wanted = name.lower()
    for key, value in headers.items():
        if key.lower() == wanted:
            return value.strip().encode("utf-8", "surrogateescape")
    return b""


def _first(found: bytes, most: int) -> bytes:
    return found[:most] if most else found


def sequence_key(value: object) -> bytes | None:
    """Return the key of the sequence with the id *value*; None: it is not an id."""
    match value:
        case bool():
            return None
        case int():
            return str(value).encode() if 0 < value <= _LARGEST else None
        case str():
            return value.encode("utf-8", "surrogatepass") or None
    return None


def _sequence_text(text: bytes) -> bytes | None:
    """Return the id that a header gives; a text that is a number is the same as that number."""
    return None if not text.strip(b"0") else text


def ranked(key: bytes, names: Iterable[str]) -> list[int]:
    """Return the indexes of *names*, those of the instances, in the order that *key* prefers.

    If a name comes or goes, the others keep their order: only the keys of that one move.
    """
    weights = [
        (hashlib.blake2b(key + b"\0" + name.encode(), digest_size=8).digest(), number)
        for number, name in enumerate(names)
    ]
    return [number for _, number in sorted(weights, reverse=True)]


# -- JSON, read without decoding what is not needed: bodies may have megabytes of tensors, and
# -- binary tensors behind the JSON

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NESTED = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb"[^\s,\]}]+")
_INTEGER = re.compile(rb"[1-9][0-9]{0,19}")


def _sequence_in(body: bytes) -> bytes | None:
    """Return the id of the sequence in the request's own parameters."""
    found = _at_path(body, "parameters.sequence_id", raw=True)
    if found is None:
        return None
    if found.startswith(b'"'):
        return sequence_key(_decoded(found))
    return sequence_key(int(found)) if _INTEGER.fullmatch(found) else None


def _at_path(body: bytes, path: str, *, raw: bool = False) -> bytes | None:
    """Return the value at *path*: the text of a string, or the JSON of another value.

    Of two members with the same name the first counts, as in Triton. With *raw* a string is
    returned as JSON, too.
    """
    at: int | None = _SPACE.match(body).end()  # type: ignore[union-attr]
    for step in path.split("."):
        at = None if at is None else _below(body, at, step)
    if at is None:
        return None
    end = _end(body, at)
    if end is None:
        return None
    found = body[at:end]
    if raw or not found.startswith(b'"'):
        return found
    text = _decoded(found)
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _below(body: bytes, at: int, step: str) -> int | None:
    """Return where the value of *step* begins in the object or list that begins at *at*."""
    match body[at : at + 1]:
        case b"{":
            return _member(body, at + 1, step)
        case b"[" if step.isascii() and step.isdecimal():
            return _item(body, at + 1, int(step))
    return None


def _member(body: bytes, at: int, name: str) -> int | None:
    while (key := _STRING.match(body, _skip(body, at))) is not None:
        colon = _skip(body, key.end())
        if body[colon : colon + 1] != b":":
            return None
        value = _skip(body, colon + 1)
        if _decoded(key[0]) == name:
            return value
        after = _next(body, value)
        if after is None:
            return None
        at = after
    return None


def _item(body: bytes, at: int, number: int) -> int | None:
    at = _skip(body, at)
    for _ in range(number):
        after = _next(body, at)
        if after is None:
            return None
        at = _skip(body, after)
    return None if body[at : at + 1] in {b"]", b""} else at


def _next(body: bytes, at: int) -> int | None:
    """Return where the next value, or key, of the same object or list begins; None: none."""
    end = _end(body, at)
    if end is None:
        return None
    comma = _skip(body, end)
    return comma + 1 if body[comma : comma + 1] == b"," else None


def _end(body: bytes, at: int) -> int | None:
    """Return where the value that begins at *at* ends; None: it does not end in *body*."""
    first = body[at : at + 1]
    if first == b'"':
        text = _STRING.match(body, at)
        return None if text is None else text.end()
    if first not in {b"{", b"["}:
        scalar = _SCALAR.match(body, at)
        return None if scalar is None else scalar.end()
    depth = 0
    for token in _NESTED.finditer(body, at):
        mark = token[0]
        depth += (mark in {b"{", b"["}) - (mark in {b"}", b"]"})
        if depth == 0:
            return token.end()
    return None


def _skip(body: bytes, at: int) -> int:
    return _SPACE.match(body, at).end()  # type: ignore[union-attr]


def _decoded(text: bytes) -> str | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, str) else None


# -- what a model's configuration says


def traits_of(name: str, config: Mapping[str, Any]) -> ModelTraits:
    """Return the traits in a model's configuration, as Triton gives it in JSON."""
    batching = config.get("sequence_batching")
    cache = config.get("response_cache")
    return ModelTraits(
        name,
        sequence_batching=isinstance(batching, Mapping),
        max_sequence_idle_s=_idle_s(batching) if isinstance(batching, Mapping) else 0.0,
        response_cache=isinstance(cache, Mapping) and cache.get("enable") is True,
        steps=tuple(_steps(config.get("ensemble_scheduling"))),
    )


def _idle_s(batching: Mapping[str, Any]) -> float:
    try:  # a number of 64 bits is a text in the JSON of a protobuf message
        idle_s = int(batching.get("max_sequence_idle_microseconds") or 0) / 1e6
    except (TypeError, ValueError, OverflowError):
        idle_s = 0.0
    return min(max(idle_s, 0.0) or TRITONS_IDLE_S, _MOST_IDLE_S)


def _steps(scheduling: object) -> Iterable[str]:
    listed = scheduling.get("step") if isinstance(scheduling, Mapping) else None
    for step in listed if isinstance(listed, list) else ():
        name = step.get("model_name") if isinstance(step, Mapping) else None
        if isinstance(name, str):
            yield name


def resolve_ensembles(models: Iterable[ModelTraits]) -> tuple[ModelTraits, ...]:
    """Return *models*, sorted by name; an ensemble keeps sequences as its models do.

    Triton passes the id of a sequence on to each step of an ensemble.
    """
    known = {model.name: model for model in models}
    return tuple(_resolved(known[name], known) for name in sorted(known))


def _resolved(model: ModelTraits, known: Mapping[str, ModelTraits]) -> ModelTraits:
    seen: dict[str, ModelTraits] = {model.name: model}
    rest = list(model.steps)
    while rest:
        name = rest.pop()
        if name in known and name not in seen:
            seen[name] = known[name]
            rest += known[name].steps
    return attrs.evolve(
        model,
        sequence_batching=any(one.sequence_batching for one in seen.values()),
        max_sequence_idle_s=max(one.max_sequence_idle_s for one in seen.values()),
    )


# -- the answer of `GET /affinity`


def rules_json(rules: Iterable[AffinityRule]) -> list[dict[str, Any]]:
    """Return the rules as plain data."""
    return [{**attrs.asdict(rule), "models": list(rule.models)} for rule in rules]


def read_rules(answer: object) -> tuple[AffinityRule, ...]:
    """Return the rules in the answer of ``GET /affinity``.

    Raises:
        ValueError: It is not such an answer, or has a rule that this version does not know.
    """
    listed = answer.get("rules") if isinstance(answer, Mapping) else None
    if not isinstance(listed, list) or len(listed) > MOST_RULES:
        raise ValueError(f"not a list of at most {MOST_RULES} rules")
    return tuple(map(_read_rule, listed))


def _read_rule(row: object) -> AffinityRule:
    if not isinstance(row, Mapping):
        raise ValueError("a rule must be an object")  # noqa: TRY004 (one error for the reader)
    models = row.get("models", [])
    if not isinstance(models, list):
        raise ValueError("the models of a rule must be a list")  # noqa: TRY004 (as above)
    known = {field.name for field in attrs.fields(AffinityRule)}
    given = {key: value for key, value in row.items() if key in known}
    try:
        return AffinityRule(**{**given, "models": tuple(models)})
    except TypeError as error:
        raise ValueError(f"a rule has a value of a wrong type: {error}") from error
