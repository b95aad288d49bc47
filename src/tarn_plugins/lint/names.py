"""Names: of models, and in their configurations.

Which signs a model's name may have (TARN-3335) is decided for `up` and for this rule in one place.
"""

import re
from collections.abc import Iterator

from tarn.domain.lint import Config, Edit, LintFinding, Location, Node, Repository, printable
from tarn.triton.repository import is_model_name, misnamed

__all__ = ["check"]

LONGEST = 128
"""Characters; beyond it paths in shared memory, metrics and logs are cut."""
_ODD_FILE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def check(repository: Repository) -> Iterator[LintFinding]:
    """Yield what is wrong with names."""
    for model in repository.models:
        yield from _directory(model.name)
        is_model = model.config is not None or bool(model.versions)
        if is_model and not is_model_name(model.name) and not _ODD_FILE.search(model.name):
            wrong = misnamed(model.name, "")
            place = Location(model.name)
            yield LintFinding(wrong.code, place, wrong.found, next_step=wrong.next_step)
        for entry in model.entries:
            if _ODD_FILE.search(entry.name):
                found = "has a name with control characters, or with bytes that are not UTF-8 text"
                yield LintFinding("TARN-2331", Location(entry.path), found, next_step="Rename it.")
    for model, config, root in repository.readable():
        yield from _written(model.name, config, root)


def _directory(name: str) -> Iterator[LintFinding]:
    place = Location(name)
    step = "Rename the directory; clients then ask for the new name."
    if _ODD_FILE.search(name):
        found = "has a name with control characters, or with bytes that are not UTF-8 text"
        yield LintFinding("TARN-2331", place, found, next_step=step)
    elif len(name) > LONGEST:
        found = f"has a name of {len(name)} characters"
        yield LintFinding("TARN-2332", place, found, f"Expected at most {LONGEST}", step)


def _written(name: str, config: Config, root: Node) -> Iterator[LintFinding]:
    written = root.first("name")
    if written is None or written.value in {name, ""}:
        return
    yield LintFinding(
        "TARN-2330",
        config.place(written),
        f"name = '{printable(written.value or '')}', and the directory is '{printable(name)}'",
        "Expected the same name, or none: Triton takes the directory's",
        "`tarn lint --fix` removes the line.",
        Edit(config.file, *_span(config.text, written)),
    )


def _span(text: str, node: Node) -> tuple[int, int]:
    """Return the whole line where nothing else stands on it, else the field and its separator."""
    begin = text.rfind("\n", 0, node.start) + 1
    newline = text.find("\n", node.end)
    end = len(text) if newline < 0 else newline + 1
    alone = not text[begin : node.start].strip("\ufeff \t")
    if alone and not text[node.end : end].strip(" \t\r\n,;"):
        return begin + text[begin:].startswith("\ufeff"), end
    rest = re.compile(r"[ \t]*[,;]?[ \t]*").match(text, node.end)
    return node.start, rest.end() if rest else node.end
