"""A YAML file as plain data, with the line of every value.

The safe subset of YAML; a key given twice, which YAML would let the last one win, is an error.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import join

__all__ = ["Document", "read"]

_MOST_VALUES = 100_000
"""Beyond it, YAML aliases were used to blow the file up."""


@attrs.frozen
class Document:
    """Plain data and where each part of it was written."""

    plain: dict[str, Any] = attrs.field(hash=False)
    origins: Mapping[str, str] = attrs.field(hash=False)
    """Dotted path to ``tarn.yaml:12``; also for keys that are unknown."""


def read(path: Path) -> Document:
    """Return the content of the YAML file *path*; an empty file is an empty mapping.

    Raises:
        ConfigErrors: It cannot be read, is no YAML, is no mapping, or gives a key twice.
    """
    name = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _error(
            str(path), "there is no such file", "Write one (only 'models' is needed) or name it"
        ) from error
    except UnicodeDecodeError as error:
        raise _error(name, f"is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise _error(str(path), f"cannot be read: {error.strerror or error}") from error
    return parse(text, name)


def parse(text: str, name: str) -> Document:
    """Return the content of YAML *text*; *name* stands in messages and origins."""
    try:
        walk = _Walk(yaml.SafeLoader(text), name)
        plain = walk.whole()
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        what = error.problem or error.context or "is no YAML"
        raise _error(f"{name}{line}", what, "Check indentation, colons and quotes") from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise _error(name, f"is no YAML: {first}") from error
    if plain is None:
        plain = {}
    if not isinstance(plain, dict):
        walk.errors.append(ConfigError("a mapping (key: value) is needed", where=name))
    if walk.errors:
        raise ConfigErrors(walk.errors)
    return Document(plain, walk.origins | {"": name})


def _error(where: str, found: str, next_step: str = "") -> ConfigErrors:
    return ConfigErrors([ConfigError(found, code="TARN-2002", where=where, next_step=next_step)])


class _Walk:
    """Turns nodes into values and notes their lines."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self._loader = loader
        self._name = name
        self._left = _MOST_VALUES
        self.origins: dict[str, str] = {}
        self.errors: list[ConfigError] = []

    def whole(self) -> Any:
        """Return the one document of the text; None where there is none."""
        try:
            node = self._loader.get_single_node()
            return None if node is None else self._value(node, "", ())
        finally:
            self._loader.dispose()

    def _construct(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_object(node)
        except (AttributeError, LookupError, TypeError) as error:  # YAML's own, on odd tags
            line = node.start_mark.line + 1
            raise ValueError(f"line {line} is not what its tag {node.tag} says") from error

    def _value(self, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {_MOST_VALUES} values")
        if node in above:
            raise ValueError(f"line {node.start_mark.line + 1} contains itself")
        self.origins.setdefault(path, self._at(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            return [
                self._value(item, join(path, index), (*above, node))
                for index, item in enumerate(node.value)
            ]
        return self._construct(node)

    def _at(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"

    def _mapping(self, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]) -> Any:
        self._refuse_doubles(node, path)
        self._loader.flatten_mapping(node)
        result = {}
        for key_node, value_node in node.value:
            key = self._construct(key_node)
            if not isinstance(key, str):
                self.errors.append(
                    ConfigError(
                        f"the key {key!r} is not text", code="TARN-2002", where=self._at(key_node),
                        next_step="Write it in quotes",
                    )
                )  # fmt: skip
                continue
            at = join(path, key)
            self.origins[at] = self._at(key_node)
            result[key] = self._value(value_node, at, above)
        return result

    def _refuse_doubles(self, node: yaml.MappingNode, path: str) -> None:
        seen: dict[str, str] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            key = key_node.value
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                self.errors.append(
                    ConfigError(
                        f"{join(path, key)} is given twice, first at {seen[key]}",
                        code="TARN-2003", where=self._at(key_node), next_step="Remove one",
                    )
                )  # fmt: skip
            seen.setdefault(key, self._at(key_node))
