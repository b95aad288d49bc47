"""A YAML file as plain data, with the line of every value.

The part of YAML that YAML 1.1 and YAML 1.2 read alike: what they read differently, a key given
twice, a tag and a character that nobody sees are errors, so that no value is another one than the
file says.
"""

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tarn.config.draft import FileValue
from tarn.config.readings import read_plain
from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import Doubtful, did_you_mean, in_quotes, join, pasted, shown

__all__ = ["Document", "missing", "parse", "parse_value", "read"]

_SUFFIXES = frozenset({".yaml", ".yml", ".txt", ".json"})
_MOST_VALUES = 100_000
"""Beyond it, YAML aliases were used to blow the file up."""
_BREAKS = "\x85\u2028\u2029"
"""Ends of lines in YAML 1.1; in YAML 1.2, in editors and in our messages they are not."""
_UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_TAG = "tag:yaml.org,2002:"
_PROPERTIES = re.compile(r"(?:[&!]\S*(?:\s+|$))*")
_MERGE = f"{_TAG}merge"


@attrs.frozen
class Document:
    """Plain data and where each part of it was written."""

    plain: dict[str, Any] = attrs.field(hash=False)
    """What is not text and stands without quotes is a `FileValue` or a `tarn.plain.Doubtful`."""
    origins: Mapping[str, str] = attrs.field(hash=False)
    """Dotted path to ``tarn.yaml:12``; also for keys that are unknown."""


def read(path: Path) -> Document:
    """Return the content of the YAML file *path*; an empty file is an empty mapping.

    Raises:
        ConfigErrors: It cannot be read, is not YAML, is not a mapping, or gives a key twice.
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
    """Return the error that the file *path* is not there, with one that may be meant."""
    try:
        here = sorted(one.name for one in path.parent.iterdir() if one.suffix in _SUFFIXES)
    except OSError:
        here = []
    near = [name for name in here if did_you_mean(name, [path.name])]
    other = pasted(near[0]) if near else "FILE"
    step = f"Write one (only 'models' is needed), or name another: -f {other}"
    return ConfigError(found, code="TARN-2002", where=str(path), next_step=step)


def parse(text: str, name: str) -> Document:
    """Return the content of YAML *text*; *name* stands in messages and origins.

    Raises:
        ConfigErrors: As with `read`.
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
    """Return what YAML *text* says, which is to stand at the dotted *path* of a configuration.

    Raises:
        ConfigErrors: As with `read`; *name* is where it was written.
    """
    walk = _Walk(name, path, has_lines=False)
    plain = walk.whole(text)
    walk.finish()
    return plain


def _error(where: str, found: str, next_step: str = "") -> ConfigErrors:
    return ConfigErrors([ConfigError(found, code="TARN-2002", where=where, next_step=next_step)])


class _Walk:
    """Turns nodes into values and notes their lines."""

    def __init__(self, name: str, path: str, *, has_lines: bool) -> None:
        self._name = name
        self._path = path
        self._has_lines = has_lines
        self._left = _MOST_VALUES
        self._flat: set[yaml.Node] = set()
        self.origins: dict[str, str] = {}
        self.errors: list[ConfigError] = []

    def whole(self, text: str) -> Any:
        """Return the one document of *text*; None where there is none."""
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
                mark = error.context_mark  # what was opened there was never closed
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
        """Raise all that was found."""
        if self.errors:
            raise ConfigErrors(list(dict.fromkeys(self.errors)))

    def _value(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {_MOST_VALUES} values")
        if node in above:
            raise ValueError(f"line {node.start_mark.line + 1} contains itself")
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
        """Return text, or a `FileValue`; None after an error was noted."""
        tag = self._tag(node)
        if tag and node.tag != f"{_TAG}str":
            return self._tagged(tag, node, path)
        if tag or node.style is not None:
            return node.value
        self._refuse_unseen(node, path)
        value = read_plain(node.value)
        return value if isinstance(value, str | Doubtful) else FileValue(value, node.value)

    def _tag(self, node: yaml.Node) -> str:
        """Return the tag that is written before *node*; PyYAML takes ``! 5`` for ``5``."""
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
        if node not in self._flat:  # an alias leads to a node that was here before
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
        """Return a key; None after an error was noted."""
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
        """Look into what is merged and lies nowhere else."""
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
