"""Write the generated parts of the reference, between their markers.

``python docs/generate.py`` rewrites them; ``tests/docs`` fails while a page differs from the code.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import click
import yaml

from tarn import hookspecs
from tarn.domain import CODES, spec

REFERENCE = Path(__file__).parent / "reference"
BEGIN, END = "<!-- generated: python docs/generate.py -->", "<!-- end of the generated part -->"


def codes() -> str:
    """Return the table of codes."""
    rows = ["| code | severity | title | meaning | next step |", "|---|---|---|---|---|"]
    for code in CODES.values():
        cells = (code.code, code.severity, code.title, code.meaning, code.next_step)
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows)


def config() -> str:
    """Return every key of ``tarn.yaml`` with its default and its meaning."""
    made = spec.ClusterSpec("required", spec.ModelsSpec("required"))
    parts = [_keys(made, "")]
    for field in attrs.fields(attrs.resolve_types(spec.ClusterSpec)):
        found = _section(field.type)
        if found is not None:
            listed = "[]" if "tuple" in str(field.type) else ""
            value = getattr(made, field.name)
            prefix = f"{field.name}{listed}."
            parts.append(f"## {field.name}\n\n{_first(found)}\n")
            parts.append(_keys(value if attrs.has(type(value)) else found, prefix))
    return "\n".join(parts).rstrip()


def hooks() -> str:
    """Return every hook: its signature as it stands in the code, and its contract."""
    parts = [inspect.cleandoc(hookspecs.__doc__ or "").partition("\n\n")[2] + "\n"]
    for name, function in vars(hookspecs).items():
        if name.startswith("tarn_"):
            source = inspect.getsource(function)
            signature = source[source.index("def ") : source.index('"""')].rstrip().rstrip(":")
            meaning = inspect.cleandoc(function.__doc__ or "")
            parts.append(f"## {name}\n\n```python\n{signature}\n```\n\n{meaning}\n")
    return "\n".join(parts).rstrip()


def cli() -> str:
    """Return the help of every verb."""
    root = importlib.import_module("tarn.cli.verbs").root
    context = click.Context(root, info_name="tarn", terminal_width=80, **root.context_settings)
    return "\n".join(_commands(root, context)).rstrip()


def doctor_yarn() -> str:
    """Return what `tarn doctor` looks at in a YARN."""
    rules = importlib.import_module("tarn_plugins.runtime.yarn.doctor.offer").RULES
    rows = ["| check | it sees | why it matters |", "|---|---|---|"]
    for rule in rules:
        what = _first(rule.look).removeprefix("See ").rstrip(".")
        rows.append("| " + " | ".join(map(_cell, (rule.name, what, rule.matters))) + " |")
    return "\n".join(rows)


def prometheus_alerts() -> str:
    """Return every alert of the rules for Prometheus: its condition, and what it says."""
    monitoring = importlib.import_module("tarn.cluster.monitoring")
    parts = []
    for name in monitoring.RULES:
        for group in yaml.safe_load(monitoring.shipped(name))["groups"]:
            parts += map(_alert, group["rules"])
    return "\n\n".join(parts)


def _alert(rule: Mapping[str, Any]) -> str:
    words = {key: _filled(text) for key, text in rule["annotations"].items()}
    after = f", when it has been so for {rule['for']}" if "for" in rule else ""
    return (
        f"## {rule['alert']}\n\n`{rule['labels']['severity']}`{after}: {words['summary']}. "
        f"{words['description']}\n\n```text\n{rule['expr']}\n```\n\n{words['next_step']}"
    )


def _filled(text: str) -> str:
    """Put words in place of what Prometheus fills in."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: found[1].upper(), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", "N", text)


def metrics() -> str:
    """Return every family of ``/metrics``."""
    families = importlib.import_module("tarn.control.metrics").FAMILIES
    rows = ["| name | kind | labels | what it is |", "|---|---|---|---|"]
    for one in families:
        words = "; ".join(f"`{word}`: {meaning}" for word, meaning in one.words.items())
        text = f"{one.text} {words}." if words else one.text
        names = ", ".join(f"`{name}`" for name in one.labels)
        rows.append("| " + " | ".join(map(_cell, (f"`{one.name}`", one.kind, names, text))) + " |")
    return "\n".join(rows)


PAGES: dict[str, Callable[[], str]] = {
    "codes": codes,
    "config": config,
    "doctor-yarn": doctor_yarn,
    "hooks": hooks,
    "metrics": metrics,
    "prometheus-alerts": prometheus_alerts,
}
if importlib.util.find_spec("tarn.cli") is not None:
    PAGES["cli"] = cli


def page(name: str) -> Path:
    """Return where the page of this name lies."""
    return REFERENCE / f"{name}.md"


def rendered(name: str) -> str:
    """Return the whole text of a page, its generated part made anew."""
    before, _, rest = page(name).read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{PAGES[name]()}\n\n{END}{after}"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _section(kind: Any) -> type | None:
    """Return the class of the spec behind *kind*, through ``tuple[...]`` and ``| None``."""
    inner = [kind, *getattr(kind, "__args__", ())]
    own = [each for each in inner if attrs.has(each) and each is not spec.Choice]
    return own[0] if own else None


def _keys(of: Any, prefix: str) -> str:
    rows = _rows(of, prefix, _comments(spec))
    return "\n".join(("| key | default | meaning |", "|---|---|---|", *rows, ""))


def _rows(of: Any, prefix: str, comments: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yield a row for each key of *of*: a value with its defaults, or a class without any."""
    kind = of if isinstance(of, type) else type(of)
    for field in attrs.fields(attrs.resolve_types(kind)):
        key = prefix + re.sub(r"_(s|mib)$", "", field.name)
        value = _default(field) if isinstance(of, type) else getattr(of, field.name)
        inner = _section(field.type)
        meaning = comments.get((kind.__name__, field.name)) or (inner and _first(inner)) or ""
        if inner is not None and kind is not spec.ClusterSpec:
            listed = "[]" if "tuple" in str(field.type) else ""
            yield from _rows(
                value if attrs.has(type(value)) else inner, f"{key}{listed}.", comments
            )
        else:
            yield f"| `{key}` | {_cell(_shown(field.name, value))} | {_cell(meaning)} |"


def _first(of: Any) -> str:
    return (of.__doc__ or "").strip().splitlines()[0]


def _default(field: Any) -> Any:
    if field.default is attrs.NOTHING:
        return "required"
    made_anew = hasattr(field.default, "factory")
    return field.default.factory() if made_anew else field.default


def _shown(name: str, value: Any) -> str:
    """Return a default as it would be written in YAML."""
    match value:
        case "required" | spec.ModelsSpec():
            return "required"
        case spec.Choice(use=use):
            return f"`{{use: {use}}}`"
        case "" | () | Mapping():
            return "empty"
        case None | bool():
            return f"`{json.dumps(value)}`"
    if attrs.has(type(value)):
        return "see below"
    unit = "s" if name.endswith("_s") else "MiB" if name.endswith("_mib") else ""
    return f"`{value:g}{unit}`" if unit else f"`{value}`"


def _comments(module: ModuleType) -> dict[tuple[str, str], str]:
    """Return (class, field) to the text that stands under the field in the source."""
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            for field, text in zip(node.body, node.body[1:], strict=False):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(words))),
                    ):
                        found[node.name, name] = " ".join(words.split())
    return found


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    with context:
        text = command.get_help(context)
    yield f"## {context.command_path}\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                child = click.Context(inner, info_name=name, parent=context, terminal_width=80)
                yield from _commands(inner, child)


if __name__ == "__main__":
    for each in PAGES:
        page(each).write_text(rendered(each), "utf-8")
        sys.stdout.write(f"{page(each)}\n")
