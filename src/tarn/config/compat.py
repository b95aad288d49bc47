"""Translate a command line of the Java TARN into an equivalent ``tarn.yaml``."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tarn.config.aliases import ALIASES, Alias, by_name
from tarn.config.document import text_of
from tarn.config.loading import LoadedSpec, dump, load
from tarn.config.offers import COMING_KEYS
from tarn.errors import ConfigError
from tarn.plain import MASK, join, masked, redact

__all__ = ["Command", "read_command", "split_command", "translate"]

_CLIENT = re.compile(r"(?:[\w.]+\.)?yarn\.Client")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_STARTERS = frozenset({"yarn", "hadoop", "java"})
_OPERATORS = ";|&<>"
_DONE = object()

_SHORT = {alias.short: alias for alias in ALIASES if alias.short}
_LONG = {alias.long: alias for alias in ALIASES if alias.long}


@attrs.frozen
class Command:
    """The parts of a command line."""

    options: Mapping[str, object] = attrs.field(hash=False, repr=False)
    """Value by long name: text, True for a flag, a list for an option that may be repeated."""
    environ: Mapping[str, str] = attrs.field(hash=False, repr=False)
    """The ``NAME=VALUE`` words before the command."""
    notes: tuple[str, ...] = ()
    """What was left out and why, a line each."""


def split_command(text: str) -> list[str]:
    """Return the words of *text* as a shell splits it, without expanding anything.

    Raises:
        ConfigError: A quote is not closed.
    """
    whole = re.sub(r"\\\r?\n", "", text)
    lexer = shlex.shlex(whole, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise ConfigError("a quote is not closed", code="TARN-2002", where="command") from error


def read_command(words: Sequence[str]) -> Command:
    """Return the parts of ``[NAME=VALUE …] yarn jar X.jar varga.tarn.yarn.Client OPTIONS``.

    As with the Java TARN's ``PosixParser``, long names may be abbreviated, a short one may be
    followed by its value (``-p8000``), and the first of two equal options counts.

    Raises:
        ConfigError: It is not such a command, or an option is unknown, ambiguous or incomplete.
    """
    mine, after = _before_operator(words)
    environ, rest = _environ(mine)
    given: dict[str, object] = {}
    notes = [f"'{word}' and what follows is not part of the command" for word in after]
    words_left = iter(_flattened(_options(rest)))
    for word in words_left:
        alias = _exact(word)
        if alias is None:
            # A word may be the second half of a token, so only harmless ones are quoted.
            harmless = re.fullmatch(r"\.{3}|…|true|false", word)
            said = f"'{word}'" if harmless else "a word"
            notes.append(f"{said} is not an option; the Java TARN ignored it too")
            continue
        value: object = True
        if not alias.is_flag:
            value = next(words_left, _DONE)
            if value is _DONE or _exact(str(value)) is not None:
                raise _wrong(f"--{alias.long}", "needs a value")
        if alias.multiple:
            held = given.setdefault(alias.key, [])
            assert isinstance(held, list)
            held.append(value)
        elif alias.key in given:
            notes.append(f"--{alias.long} is given twice; the first counts, as it did")
        else:
            given[alias.key] = value
    return Command(given, environ, tuple(dict.fromkeys(notes)))


def _before_operator(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the first command, and the operator that ends it, if any."""
    for number, word in enumerate(words):
        if word and set(word) <= set(_OPERATORS):
            return list(words[:number]), [word]
    return list(words), []


def _environ(words: list[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    rest = words[1:] if words[:1] in (["env"], ["export"]) else words
    while rest and _ASSIGNMENT.match(rest[0]):
        name, _, value = rest[0].partition("=")
        found[name] = value
        rest = rest[1:]
    return found, rest


def _options(words: list[str]) -> list[str]:
    """Return the words after the client's class, or after ``yarn jar X.jar``."""
    for number, word in enumerate(words):
        if _CLIENT.fullmatch(word):
            return words[number + 1 :]
    if words[:1] and words[0].rpartition("/")[2] in _STARTERS and words[1:2] == ["jar"]:
        return words[3:]
    if words and words[0].startswith("-"):
        return words
    raise _wrong(
        "command",
        "not a command of the Java TARN",
        "Expected: yarn jar tarn-orchestrator.jar varga.tarn.yarn.Client --options",
    )


def _flattened(words: Sequence[str]) -> Iterator[str]:
    """Yield options and values as separate words, options by their long names."""
    for word in words:
        if word == "--":
            return  # the words after it are not options
        if word.startswith("--"):
            yield from _long(word)
        elif word.startswith("-") and word != "-":
            yield from _short(word)
        else:
            yield word


def _long(word: str) -> Iterator[str]:
    name, equals, value = word.removeprefix("--").partition("=")
    alias = _LONG.get(name) or _only(name) or (None if equals else _SHORT.get(name))
    if alias is None:
        raise _wrong(f"--{name}", "no such option of the Java TARN", _near(name))
    yield f"--{alias.long}"
    if equals:
        yield value


def _short(word: str) -> Iterator[str]:
    name = word.removeprefix("-")
    alias = _SHORT.get(name) or _LONG.get(name) or _only(name)
    if alias is not None:
        yield f"--{alias.long}"
        return
    alias = _SHORT.get(name[0])
    if alias is None or alias.is_flag:
        if re.fullmatch(r"[0-9.]+", name):
            yield word  # a negative number, the value of an option
            return
        raise _wrong(f"-{name}", "no such option of the Java TARN", _near(name))
    yield f"--{alias.long}"
    yield name[1:]


def _only(name: str) -> Alias | None:
    """Return the option whose long name begins with *name*, if there is exactly one."""
    begun = [alias for long, alias in _LONG.items() if long.startswith(name)]
    return begun[0] if len(begun) == 1 else None


def _near(name: str) -> str:
    begun = sorted(f"--{long}" for long in _LONG if name and long.startswith(name))
    return (
        f"It may be one of: {', '.join(begun)}" if begun else "`tarn compat --options` lists them"
    )


def _exact(word: str) -> Alias | None:
    return _LONG.get(word.removeprefix("--")) if word.startswith("--") else None


def _wrong(where: str, found: str, step: str = "") -> ConfigError:
    return ConfigError(found, code="TARN-2002", where=where, next_step=step)


# Defaults of the Java TARN that are not ours.
_JAVA = {
    "models": {"repository": "hdfs:///models"},
    "runtime": {"use": "yarn"},
    "scaling": {"use": "threshold"},
}
_UNASKED = "the Java TARN's default"
_GPUS = "instance.resources.gpus"
_TOKEN = "token"  # noqa: S105 (the name of an option)
_PLACEHOLDER = re.compile(r"\[[\w .-]+\]|<[\w .-]+>")
_NOTHING = object()


def translate(words: Sequence[str], coming: Mapping[tuple[str, str], str]) -> str:
    """Return the text of a ``tarn.yaml`` that is equivalent to the command in *words*.

    It uses the variables of the command (``NAME=VALUE`` words before it), but not those of this
    process. Features of later parts are translated, with a comment that names the part. The text
    never contains an api token, or a value with a secret's name.

    Args:
        words: The words of the command, as `split_command` returns them.
        coming: The part that brings each provider that is not here yet, by its (kind, name).

    Raises:
        ConfigErrors: It is not a command of the Java TARN, or an option will not be supported;
            every error at once.
    """
    command = read_command(words)
    options = dict(command.options)
    head = list(command.notes)
    head += _dropped(options)
    for key in list(options):
        if (part := by_name[key].part) not in ("", "-"):
            del options[key]
            head.append(f"--{key} comes with the part {part}; there is no key for it yet")
    environ = dict(command.environ)
    if _TOKEN in options:  # as a variable, since an argument would be noted as visible to others
        environ["TARN_TOKEN"] = str(options.pop(_TOKEN))
    # The name is left out of the text: it will be that of the file's folder.
    loaded = load({"name": "any", **_JAVA}, aliases=options, environ=environ)
    head += loaded.notes
    plain, comments = _written_keys(loaded)
    _token(loaded, plain, comments, head)
    _secrets(plain, comments)
    _parts(loaded, plain, comments, coming)
    lines = [f"# {line}" for line in head]
    return "\n".join((*lines, *_lines(plain, comments, "", 0))) + "\n"


def _dropped(options: dict[str, object]) -> Iterator[str]:
    """Remove empty options and placeholders; yield a line about each."""
    for key, value in list(options.items()):
        if value == "":
            del options[key]
            yield f"--{key} is empty, which the Java TARN took as not given"
        elif isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
            del options[key]
            yield f"--{key} {value}: left out, a placeholder"


def _written_keys(loaded: LoadedSpec) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys to write, and comments on those that are defaults of the Java TARN."""
    comments: dict[str, str] = {}

    def kept(value: Any, path: str) -> Any:
        if isinstance(value, dict) and value:
            inside = {key: kept(item, join(path, key)) for key, item in value.items()}
            inside = {key: item for key, item in inside.items() if item is not _NOTHING}
            return inside or _NOTHING
        if isinstance(value, list) and value:
            listed = [kept(item, join(path, index)) for index, item in enumerate(value)]
            return [item for item in listed if item is not _NOTHING] or _NOTHING
        origin = loaded.origins.get(path, "default")
        if path == _GPUS and origin == "default":
            comments[path] = _UNASKED
            return 1
        if value == {} or origin in ("default", "argument: name"):
            return _NOTHING
        if origin.startswith("argument: ") and path != "runtime.use":
            comments[path] = _UNASKED
        return value

    plain = kept(dump(loaded.spec), "")
    return plain, comments


def _token(
    loaded: LoadedSpec, plain: dict[str, Any], comments: dict[str, str], head: list[str]
) -> None:
    if loaded.api_token is not None:
        plain.setdefault("api", {})["token"] = "env:TARN_TOKEN"  # noqa: S105 (where it is)
        comments["api.token"] = (
            "the token is not written into the file: export TARN_TOKEN before `tarn up`"
        )
    else:
        head.append(
            "without --token the Java TARN let everybody in; here a token is generated "
            "(`api: {token: none}` turns that off)"
        )


def _secrets(plain: dict[str, Any], comments: dict[str, str]) -> None:
    """Mask secrets in Triton's environment, and passwords in any URL."""
    environ = plain.get("triton", {}).get("env", {})
    for name, value in redact(environ, free=True).items():  # type: ignore[attr-defined]
        if value == MASK:
            environ[name] = value
            comments[join("triton.env", name)] = (
                "a secret is not written into the file: put it into a secret store, or write it "
                "here"
            )

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(item) for key, item in value.items()}
        if isinstance(value, list):
            return [shown(item) for item in value]
        return masked(value) if isinstance(value, str) else value

    plain |= shown(plain)


def _parts(
    loaded: LoadedSpec,
    plain: dict[str, Any],
    comments: dict[str, str],
    coming: Mapping[tuple[str, str], str],
) -> None:
    """Add comments with the parts that bring what this version lacks."""
    spec = loaded.spec
    chosen = {
        "runtime.use": ("runtime", spec.runtime.use),
        "authorizer.use": ("authorizer", spec.authorizer.use),
        "affinity.use": ("affinity", spec.affinity.use),
        "scaling.use": ("scaling", spec.scaling.use),
    }
    for index, discovery in enumerate(spec.discovery):
        chosen[f"discovery[{index}].use"] = ("discovery", discovery.use)
    for index, store in enumerate(spec.secrets):
        chosen[f"secrets[{index}].use"] = ("secrets", store.use)
    parts = {path: coming[offer] for path, offer in chosen.items() if offer in coming}
    parts |= {path: part for path, part in COMING_KEYS.items() if _has(plain, path)}
    for path, part in parts.items():
        said = [comments[path]] if path in comments else []
        comments[path] = "; ".join((*said, f"comes with the part {part}"))


def _has(plain: Any, path: str) -> bool:
    for key in path.split("."):
        plain = plain.get(key) if isinstance(plain, dict) else None
    return plain is not None


def _lines(plain: Any, comments: Mapping[str, str], path: str, depth: int) -> Iterator[str]:
    """Yield lines of block-style YAML, with comments after the keys."""
    pairs = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in pairs:
        at = join(path, key)
        start = "  " * depth + (f"{_scalar(key)}:" if isinstance(plain, dict) else "-")
        remark = f"  # {comments[at]}" if at in comments else ""
        if not isinstance(value, dict | list) or not value:
            yield f"{start} {_scalar(value)}{remark}"
        elif isinstance(plain, list) and isinstance(value, dict):
            first, *others = _lines(value, comments, at, depth + 1)
            yield "  " * depth + f"- {first.lstrip()}"
            yield from others
        else:
            yield start + remark
            yield from _lines(value, comments, at, depth + 1)


def _scalar(value: object) -> str:
    text = text_of(value, flow=True)
    return text.removesuffix("\n").removesuffix("\n...")
