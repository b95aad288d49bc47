"""Read YAML files as plain data, with the line of every value, and write YAML.

Only what YAML 1.1 and YAML 1.2 read in the same way is accepted. PyYAML reads YAML 1.1, where
``010`` is 8, ``12:30:00`` is 45000 and ``off`` is false; most programs and people expect YAML 1.2.
Ambiguous values, duplicate keys, tags and invisible characters are errors. `text_of` writes
ambiguous text in quotes.
"""

import datetime as dt
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tarn.config.draft import FileValue
from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import Doubtful, did_you_mean, in_quotes, join, pasted, shown

__all__ = ["Document", "missing", "parse", "parse_value", "read", "text_of"]

_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda t: float(t.replace(".", ""))),
)
# Digits: Python refuses to read longer numbers.
_LONGEST = 4000


def read_plain(text: str) -> Any:
    """Return the value of *text* without quotes; a `Doubtful` if YAML 1.1 reads another one."""
    value = _core(text)
    try:
        older = _older(text)
    except ValueError:  # an impossible date, a number without digits
        return Doubtful(text, "no value at all", _words(value), _written(value))
    if older is _MARK:
        return Doubtful(text, "a special mark", _words(value))
    both_nan = all(isinstance(one, float) and math.isnan(one) for one in (older, value))
    if type(older) is type(value) and (older == value or both_nan):
        return value
    right = tuple(dict.fromkeys((*_written(older), *_written(value))))
    return Doubtful(text, _words(older), _words(value), right)


def text_of(plain: object, *, flow: bool | None = False) -> str:
    """Return *plain* as YAML that YAML 1.1 and YAML 1.2 read in the same way."""
    made: str = yaml.dump(
        plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow,
        width=10**6,
    )  # fmt: skip
    return made


class _Dumper(yaml.SafeDumper):
    """Puts text in quotes that one version of YAML would not read as text."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    doubtful = isinstance(read_plain(text), Doubtful) or not text.isprintable()
    style = '"' if doubtful else None  # PyYAML quotes whatever else it would not read as text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)

_MARK = object()
# Shared: resolving tags and single values leaves no state in it.
_RESOLVER = yaml.SafeLoader("")
_TAG = "tag:yaml.org,2002:"


def _core(text: str) -> Any:
    """Return the value of *text* in the core schema of YAML 1.2 (section 10.3.2)."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _LONGEST:
        for pattern, number in _NUMBERS:
            if pattern.fullmatch(text):
                return number(text)
    return text


def _older(text: str) -> Any:
    """Return the value of *text* in YAML 1.1; `_MARK` if it is a merge key or the like."""
    if len(text) > _LONGEST:
        return text
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag in {f"{_TAG}merge", f"{_TAG}value"}:
        return _MARK
    construct = yaml.SafeLoader.yaml_constructors.get(tag)
    if construct is None:  # '*', '&', '!': a file cannot have them as plain values
        return text
    return construct(_RESOLVER, yaml.ScalarNode(tag, text))


def _words(value: object) -> str:
    match value:
        case str():
            return "text"
        case bool():
            return "true" if value else "false"
        case dt.date():
            return "a date"
        case None:
            return "null"
    return f"{value}"


def _written(value: object) -> tuple[str, ...]:
    """Return how *value* is written unambiguously; empty for text and dates."""
    return () if isinstance(value, str | dt.date) else (_words(value),)


_SUFFIXES = frozenset({".yaml", ".yml", ".txt", ".json"})
# Only a file that multiplies values by aliases has more.
_MOST_VALUES = 100_000
# YAML 1.1 ends a line at these; YAML 1.2, editors and our line numbers do not.
_BREAKS = "\x85\u2028\u2029"
_UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_PROPERTIES = re.compile(r"(?:[&!]\S*(?:\s+|$))*")
_MERGE = f"{_TAG}merge"


@attrs.frozen
class Document:
    """Plain data, with the origin of each value."""

    plain: dict[str, Any] = attrs.field(hash=False)
    """Unquoted values other than text are a `FileValue` or a `tarn.plain.Doubtful`."""
    origins: Mapping[str, str] = attrs.field(hash=False)
    """``tarn.yaml:12`` by dotted path, also for unknown keys."""


def read(path: Path) -> Document:
    """Return the content of the YAML file *path*; an empty file is an empty mapping.

    Raises:
        ConfigErrors: The file cannot be read, is not YAML or not a mapping, or repeats a key.
    """
    name = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigErrors([missing(path)]) from error
    except UnicodeDecodeError as error:
        raise _error(name, f"is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise _error(str(path), f"cannot be read: {error.strerror or error}") from error
    return parse(text, name)


def missing(path: Path, found: str = "there is no such file") -> ConfigError:
    """Return the error for the missing file *path*, with the name of a similar one."""
    try:
        here = sorted(one.name for one in path.parent.iterdir() if one.suffix in _SUFFIXES)
    except OSError:
        here = []
    near = [name for name in here if did_you_mean(name, [path.name])]
    other = pasted(near[0]) if near else "FILE"
    step = f"Write one (only 'models' is needed), or name another: -f {other}"
    return ConfigError(found, code="TARN-2002", where=str(path), next_step=step)


def parse(text: str, name: str) -> Document:
    """Return the content of YAML *text*; *name* is used in messages and origins.

    Raises:
        ConfigErrors: As `read` does.
    """
    walk = _Walk(name, "", has_lines=True)
    plain = walk.whole(text)
    if plain is None:
        plain = {}
    if not isinstance(plain, dict):
        walk.errors.append(ConfigError("a mapping (key: value) is needed", where=name))
    walk.finish()
    return Document(plain, walk.origins | {"": name})


def parse_value(text: str, name: str, path: str) -> Any:
    """Return the value of YAML *text* for the dotted *path* of a configuration.

    Raises:
        ConfigErrors: As `read` does; *name* is the origin in messages.
    """
    walk = _Walk(name, path, has_lines=False)
    plain = walk.whole(text)
    walk.finish()
    return plain


def _error(where: str, found: str, next_step: str = "") -> ConfigErrors:
    return ConfigErrors([ConfigError(found, code="TARN-2002", where=where, next_step=next_step)])


class _Walk:
    """Turns YAML nodes into values, and records their lines."""

    def __init__(self, name: str, path: str, *, has_lines: bool) -> None:
        self._name = name
        self._path = path
        self._has_lines = has_lines
        self._left = _MOST_VALUES
        self._flat: set[yaml.Node] = set()
        self.origins: dict[str, str] = {}
        self.errors: list[ConfigError] = []

    def whole(self, text: str) -> Any:
        """Return the only document of *text*; None if it is empty."""
        self._text = text
        for number, line in enumerate(text.split("\n")):
            for sign in _BREAKS:
                if sign in line:
                    raise _error(self._line(number), f"has {_named(sign)}", _escaped(sign))
        try:
            self._loader = yaml.SafeLoader(text)
            try:
                node = self._loader.get_single_node()
                return None if node is None else self._value(node, self._path, ())
            finally:
                self._loader.dispose()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            if mark and error.context_mark and not text[mark.index :].strip():
                mark = error.context_mark  # where the unclosed bracket or quote begins
            where = self._line(mark.line) if mark else self._name
            what = error.problem or error.context or "?"
            raise _error(
                where, f"not YAML: {what}", "Check indentation, colons and quotes"
            ) from error
        except yaml.reader.ReaderError as error:
            where = self._line(text.count("\n", 0, error.position))
            raise _error(where, f"has {_named(chr(error.character))}", "Remove it") from error
        except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise _error(self._name, f"not YAML: {first}") from error

    def finish(self) -> None:
        """Raise the recorded errors, if any."""
        if self.errors:
            raise ConfigErrors(list(dict.fromkeys(self.errors)))

    def _value(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {_MOST_VALUES} values")
        if node in above:
            raise ValueError(f"line {node.start_mark.line + 1} contains itself")
        # The line of the key, if `_mapping` noted one, is where a person looks.
        self.origins.setdefault(path, self._at(node))
        if not isinstance(node, yaml.ScalarNode) and (tag := self._tag(node)):
            return self._tagged(tag, node, path)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            return [
                self._value(item, join(path, index), (*above, node))
                for index, item in enumerate(node.value)
            ]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        """Return text, or a `FileValue`; None after recording an error."""
        tag = self._tag(node)
        if tag and node.tag != f"{_TAG}str":
            return self._tagged(tag, node, path)
        if tag or node.style is not None:
            return node.value
        self._refuse_unseen(node, path)
        value = read_plain(node.value)
        return value if isinstance(value, str | Doubtful) else FileValue(value, node.value)

    def _tag(self, node: yaml.Node) -> str:
        """Return the tag that is written before *node*, or ''."""
        # PyYAML reads ``! 5`` as ``5`` without a tag, so the text itself is searched.
        before = _PROPERTIES.match(self._text, node.start_mark.index)
        words = before[0].split() if before else []
        return next((word for word in words if word.startswith("!")), "")

    def _tagged(self, tag: str, node: yaml.Node, path: str) -> None:
        what = f"{path}: " if path else ""
        self._bad(node, f"{what}the tag {shown(tag, '')} is not supported", "Remove the tag")

    def _refuse_unseen(self, node: yaml.ScalarNode, path: str) -> None:
        sign = next((s for s in node.value if s != " " and unicodedata.category(s) in _UNSEEN), "")
        if sign:
            what = f"{path} has" if path else "has"
            self._bad(node, f"{what} {_named(sign)}", _escaped(sign))

    def _bad(self, node: yaml.Node, found: str, step: str) -> None:
        self.errors.append(
            ConfigError(found, code="TARN-2002", where=self._at(node), next_step=step)
        )

    def _at(self, node: yaml.Node) -> str:
        return self._line(node.start_mark.line)

    def _line(self, number: int) -> str:
        return f"{self._name}:{number + 1}" if self._has_lines else self._name

    def _mapping(self, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]) -> Any:
        if node not in self._flat:  # an alias leads to a node that was flattened already
            self._flat.add(node)
            self._refuse_doubles(node, path)
            self._loader.flatten_mapping(node)
        result = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            at = join(path, key)
            self.origins[at] = self._at(key_node)
            result[key] = self._value(value_node, at, above)
        return result

    def _key(self, node: yaml.Node, path: str) -> str | None:
        """Return a key; None after recording an error."""
        if not isinstance(node, yaml.ScalarNode):
            kind = "list" if isinstance(node, yaml.SequenceNode) else "mapping"
            self._bad(node, f"a {kind} cannot be a key", "Write the key in quotes")
            return None
        before = len(self.errors)
        key = self._scalar(node, "")
        if len(self.errors) > before:
            last = self.errors.pop()
            self._bad(node, f"the key {shown(node.value, '')}: {last.found}", last.next_step)
            return None
        if isinstance(key, Doubtful):
            self._bad(node, f"the key {key.text}: {key.found}", in_quotes(key.text))
            return None
        if not isinstance(key, str):
            text = node.value or "(nothing)"
            self._bad(node, f"the key {text} is not text", in_quotes(node.value))
            return None
        return key

    def _refuse_doubles_of(self, merged: yaml.Node, path: str) -> None:
        """Check the mappings of a merge key, which no other key may lead to."""
        several = merged.value if isinstance(merged, yaml.SequenceNode) else [merged]
        for node in several:
            if isinstance(node, yaml.MappingNode) and node not in self._flat:
                self._refuse_doubles(node, path)

    def _refuse_doubles(self, node: yaml.MappingNode, path: str) -> None:
        seen: dict[str, str] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                self._refuse_doubles_of(value_node, path)
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            key = key_node.value
            if key in seen:
                self.errors.append(
                    ConfigError(
                        f"{join(path, key)} is given twice{seen[key]}",
                        code="TARN-2003", where=self._at(key_node), next_step="Remove one",
                    )
                )  # fmt: skip
            seen.setdefault(key, f", first at {self._at(key_node)}" if self._has_lines else "")


def _named(sign: str) -> str:
    name = unicodedata.name(sign, "a control character")
    return f"a character that cannot be seen: U+{ord(sign):04X} ({name.lower()})"


def _escaped(sign: str) -> str:
    return f'Remove it; if it is intended, write "\\u{ord(sign):04x}" in double quotes'
