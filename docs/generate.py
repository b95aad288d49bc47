"""Write the generated parts of the reference, between their markers.

``python docs/generate.py`` rewrites them; ``tests/docs`` fails while a page differs from the code.
"""

import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import click
import yaml

from tarn import hookspecs
from tarn.domain import CODES, spec
from tarn.plain import REQUIRED, options, unstructure
from tarn.plain.describe import field_docs

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
    """Return every key of ``tarn.yaml`` with its value, its default and its meaning."""
    parts = [_table(_top())]
    for field in attrs.fields(attrs.resolve_types(spec.ClusterSpec)):
        found = _section(field.type)
        if found is not None:
            listed = "[]" if "tuple" in str(field.type) else ""
            parts.append(f"## {field.name}\n\n{_first(found)}\n")
            parts.append(_table(_option_rows(found, f"{field.name}{listed}.", _made(field))))
    parts += _providers()
    return "\n".join(parts).rstrip()


def _top() -> Iterator[str]:
    docs = field_docs(spec.ClusterSpec)
    for field in attrs.fields(attrs.resolve_types(spec.ClusterSpec)):
        inner = _section(field.type)
        meaning = docs.get(field.name) or (_first(inner) if inner else "")
        default = "the folder's name" if field.name == "name" else _shown(_made(field))
        kind = "text" if field.name == "name" else "a name, or `{use: NAME, options: …}`"
        yield _row(field.name, "see below" if inner else kind, default, meaning)


def _providers() -> Iterator[str]:
    """Yield a section for each provider of TARN's own that has options."""
    plugins = importlib.import_module("tarn.plugins").load()
    for kind, listed in (("runtime", ""), ("scaling", ""), ("authorizer", ""), ("affinity", ""),
                         ("discovery", "[]"), ("secrets", "[]")):  # fmt: skip
        for name, factory in sorted(plugins.offers(kind).items()):
            if not str(factory.settings.__module__).startswith("tarn_plugins."):
                continue
            rows = [*_option_rows(factory.settings, f"{kind}{listed}.options.", None)]
            yield f"## {kind}: {name}\n\n{_sentence(factory.summary)}\n"
            yield _table(rows) if rows else "It has no options.\n"


def _option_rows(cls: type, prefix: str, made: Any) -> Iterator[str]:
    """Yield a row for each key that *cls* is made from, and for those of classes within it."""
    resolved = attrs.resolve_types(cls)
    fields = [field for field in attrs.fields(resolved) if field.init]
    for field, option in zip(fields, options(cls), strict=True):
        inner = _section(field.type)
        key = f"{prefix}{option.key}"
        value = getattr(made, field.name) if attrs.has(type(made)) else None
        if inner is not None:
            listed = "[]" if "tuple" in str(field.type) else ""
            if option.meaning and listed:
                yield _row(f"{key}{listed}", "list", "empty", option.meaning)
            nested = value if attrs.has(type(value)) else _made(field)
            yield from _option_rows(inner, f"{key}{listed}.", nested)
            continue
        if attrs.has(type(made)):
            shown = _shown(unstructure(made)[option.key])
        else:
            shown = _shown(option.default)
        yield _row(key, option.kind, shown, option.meaning)


def _row(key: str, kind: str, default: str, meaning: str) -> str:
    plain = re.sub(r"\bNone\b", "null", meaning)
    return f"| `{key}` | {_cell(kind)} | {_cell(default)} | {_cell(plain)} |"


def _table(rows: Iterable[str]) -> str:
    return "\n".join(("| key | value | default | meaning |", "|---|---|---|---|", *rows, ""))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _made(field: Any) -> Any:
    """Return the default of *field*."""
    if field.default is attrs.NOTHING:
        return REQUIRED
    return field.default.factory() if hasattr(field.default, "factory") else field.default


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
        # Without its verb, such as in "Check whether YARN answers."
        what = _first(rule.look).partition(" ")[2].rstrip(".")
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
    after = f", when this has lasted {rule['for']}" if "for" in rule else ""
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
    families = importlib.import_module("tarn.read.metrics").FAMILIES
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
    """Return the whole text of a page, its generated part made again."""
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


def _first(of: Any) -> str:
    return (of.__doc__ or "").strip().splitlines()[0]


def _shown(value: Any) -> str:
    """Return a default as it would be written in YAML."""
    match value:
        case "required" | spec.ModelsSpec():
            return "required"
        case spec.Choice(use=use):
            return f"`{{use: {use}}}`"
        case None | bool():
            return f"`{json.dumps(value)}`"
    if attrs.has(type(value)):
        return "see below"
    if isinstance(value, list | tuple) and value:
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`" if value or isinstance(value, int | float) else "empty"


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
