"""Count what the source of TARN is made of, and compare it with what it is meant to become.

``python3 -m tests.code_figures`` prints the figures. ``--write`` also puts them into
``docs/explanation/architecture.md``, ``--commit REV`` counts a commit in place of the working tree.
It imports nothing but the standard library, and nothing of TARN.
"""

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

sys.path.insert(0, str(Path(__file__).parent))  # it is off the path as `python3 -m tests...`
from house_names import ALLOWED, top_classes

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
BEGIN, END = "<!-- measured: figures -->", "<!-- end: figures -->"

SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that make no line a code line."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function
Modules = Mapping[str, "Module"]


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    package: str
    """Where a relative import starts."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    @property
    def comments(self) -> int:
        return sum(token.type == tokenize.COMMENT for token in self.tokens)

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @cached_property
    def classes(self) -> list[str]:
        return list(top_classes(self.tree.body))

    @cached_property
    def code_lines(self) -> int:
        """Lines with a token that is neither a comment nor a part of a docstring."""
        lines: set[int] = set()
        for token in self.tokens:
            if token.type not in SILENT:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if isinstance(node, Documented) and ast.get_docstring(node) is not None:
                lines.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        return len(lines)

    def imports(self, modules: Modules) -> Iterator[str]:
        """Yield the modules that this one imports, wherever in the file, among *modules*."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names if name.name in modules)
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                for name in node.names:
                    # A package's name may be a module of it, or something defined in its __init__.
                    inner = f"{origin}.{name.name}"
                    imported = inner if inner in modules else origin
                    if imported in modules:
                        yield imported

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        start = parts[: len(parts) - node.level + 1]
        return ".".join([*start, node.module] if node.module else start)


def parsed(texts: Iterable[tuple[PurePath, str]]) -> Modules:
    """Return the modules by their names; paths start at the folder that holds the packages."""
    modules = {}
    for path, text in texts:
        *inside, last = path.with_suffix("").parts
        name = ".".join(inside if last == "__init__" else [*inside, last])
        modules[name] = Module(name, ".".join(inside), text)
    return modules


def modules_below(source: Path) -> Modules:
    """Return the modules of a folder."""
    paths = sorted(source.rglob("*.py"))
    return parsed((path.relative_to(source), path.read_text("utf-8")) for path in paths)


def modules_of(commit: str) -> Modules:
    """Return the modules of a commit."""
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = [member for member in files if member.name.endswith(".py")]
        contents = {member.name: files.extractfile(member) for member in members}
        return parsed(
            (PurePath(name).relative_to("src"), content.read().decode())
            for name, content in contents.items()
            if content is not None
        )


def doubled_classes(modules: Modules, allowed: Mapping[str, str]) -> list[str]:
    """Return the names that stand for classes of two modules and are not allowed to."""
    counted = Counter(name for module in modules.values() for name in module.classes)
    return sorted(name for name, count in counted.items() if count > 1 and name not in allowed)


def single_importers(modules: Modules) -> dict[str, str]:
    """Return the modules that exactly one other imports, and that one."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for importer, module in modules.items():
        for name in module.imports(modules):
            importers[name].add(importer)
    others = {name: found - {name} for name, found in importers.items()}
    return {name: next(iter(found)) for name, found in others.items() if len(found) == 1}


def figures(modules: Modules, allowed: Mapping[str, str] = ALLOWED) -> dict[str, float]:
    """Return what is counted, by the keys of `ROWS`."""
    every = modules.values()
    lengths = [
        (function.end_lineno or 0) - function.lineno + 1
        for module in every
        for function in module.functions
    ]
    core = [module for module in every if module.name.partition(".")[0] == "tarn"]
    return {
        "files": len(modules),
        "code lines": sum(module.code_lines for module in every),
        "core": sum(module.code_lines for module in core),
        "one importer": 100 * len(single_importers(modules)) / len(modules),
        "doubled classes": len(doubled_classes(modules, allowed)),
        "function": sum(lengths) / len(lengths),
        "comments": 100
        * sum(module.comments for module in every)
        / sum(module.lines for module in every),
    }


@dataclass(frozen=True)
class Row:
    """How a figure is shown and counted, and what is aimed at."""

    title: str
    aim: str
    counted: str
    shown: Callable[[float], str]


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _percent(number: float) -> str:
    return f"{number:.0f} %"


def _fraction(number: float) -> str:
    return f"{number:.1f}"


ROWS = {
    "files": Row("source files", "at most 430", "`*.py` in `src`", _whole),
    "code lines": Row(
        "code lines",
        "at most 50,000",
        "without blank lines, comments, and docstrings of modules, classes and functions; "
        "the text under a field counts",
        _whole,
    ),
    "core": Row("code lines without plugins", "at most 26,000", "those of `src/tarn`", _whole),
    "one importer": Row(
        "modules with one importer",
        "at most 22 %",
        "a share of all modules; `from package import name` imports the module `name` where there "
        "is one, else the package; entry points do not count",
        _percent,
    ),
    "doubled classes": Row(
        "class names used twice",
        "0",
        "at the top of two modules, private ones too; `ALLOWED` in `tests/house_names.py` lists "
        "the exceptions",
        _whole,
    ),
    "function": Row(
        "lines of a function, mean",
        "10 to 14",
        "from `def` to the end, with docstring; methods and inner functions count",
        _fraction,
    ),
    "comments": Row(
        "comments per 100 lines", "at least 3", "`noqa` counts, docstrings do not", _fraction
    ),
}

BEFORE_COMMIT = "637675b"
BEFORE: Mapping[str, float] = {
    "files": 709,
    "code lines": 62_292,
    "core": 38_298,
    "one importer": 35.97,
    "doubled classes": 82,
    "function": 9.07,
    "comments": 1.20,
}
"""What ``--commit`` prints for it."""


def table(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Return the table of the page."""
    lines = [
        f"| figure | before ({BEFORE_COMMIT}) | now | aim | how it is counted |",
        "|---|--:|--:|--:|---|",
    ]
    for key, row in ROWS.items():
        shown = f"{row.shown(before[key])} | {row.shown(now[key])}"
        lines.append(f"| {row.title} | {shown} | {row.aim} | {row.counted} |")
    return "\n".join(lines)


def written(page: str, text: str) -> str:
    """Return *page* with *text* between its markers."""
    head, begun, rest = page.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not begun or not ended:
        raise SystemExit(f"{PAGE.name} needs the lines {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, and write them if asked."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.code_figures", description=__doc__)
    parser.add_argument("--commit", metavar="REV", help="count this commit")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    parser.add_argument("--names", action="store_true", help="also print which names and modules")
    given = parser.parse_args(arguments)
    if given.commit and given.write:
        parser.error("--write is for the working tree; leave out --commit")
    modules = modules_of(given.commit) if given.commit else modules_below(ROOT / "src")
    now = figures(modules)
    for key, row in ROWS.items():
        before = row.shown(BEFORE[key])
        print(f"{row.title:30} {row.shown(now[key]):>8}   before {before:>8}   aim {row.aim}")
    if given.names:
        _print_names(modules)
    if given.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), table(BEFORE, now)), "utf-8")


def _print_names(modules: Modules) -> None:
    print("\nclass names used twice:", *doubled_classes(modules, ALLOWED))
    print("\nmodules with one importer:")
    for name, importer in single_importers(modules).items():
        print(f"  {name} ({modules[name].lines} lines): {importer}")


if __name__ == "__main__":
    main()
