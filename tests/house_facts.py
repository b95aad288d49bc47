"""Places where `src` reads a sentence again, instead of the fact that it was made of.

``python tests/house_facts.py`` names each place that is not in `FOREIGN`, and each entry of
`FOREIGN` that is gone, and ends with status 1 when there is one. A *sentence* is what our classes
and answers hold for people: `SENTENCES` by name, and the text of a caught error. It is shown, and
passed on, and empty or not; it is not searched, split or compared.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"

SENTENCES = frozenset(
    {
        *("found", "message", "next_step", "right", "reason", "why", "said", "told"),
        *("public", "warning", "suspect", "halted", "meaning", "title", "notes", "refused"),
        *("diagnostics", "refusal", "answer", "error", "trouble", "held_back"),
    }
)
"""Attributes, and keys of answers, that hold text for people."""
_NAMES = frozenset({"message", "next_step", "reason"})
"""Variables that hold it."""
_ERRORS = frozenset({"error", "exc", "caught"})
_SEARCHING = frozenset(
    {
        *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"),
        *("split", "rsplit", "replace", "find", "index", "count"),
    }
)
_PATTERNS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "split"})

FOREIGN = {
    # texts of other programs, read where they arrive
    "'ALERT' in reason": "OpenSSL's name of a TLS error",
    "'CERTIFICATE' in reason": "OpenSSL's name of a TLS error",
    "'UNKNOWN_CA' in reason": "OpenSSL's name of a TLS error",
    "reason.replace('_', ' ')": "OpenSSL's name of a TLS error, as words",
    "error.reason == 'KEY_VALUES_MISMATCH'": "OpenSSL's name of an error",
    "str(error.reason or '').replace('_', ' ')": "OpenSSL's name of an error, as words",
    "str(error).rpartition('): ')": "gssapi's text: the numbers before are for nobody",
    "str(error).partition(' : ')": "protobuf's text: the place before is told otherwise",
    "message.partition(' to YARN : ')": "Hadoop's text around the cause",
    "_EXIT_CODE.search(attempt.diagnostics)": "YARN's text: it gives the exit code nowhere else",
    "_UNKNOWN in fault.message": "Hadoop's text: it has one exception for many causes",
    "labels('{' + text + '}').get('reason', '') in _CALLERS": "a label of Triton's metrics",
    # ours, where nothing but a text comes through
    "reason.startswith(GIVEN_UP)": "YARN keeps one text of an application that was killed",
    "reason.removeprefix(GIVEN_UP)": "YARN keeps one text of an application that was killed",
    "one['reason'] in reason": "a master of an earlier version tells no more",
    "item['suspect'] != unwell.get('message')": "a master of an earlier version tells no more",
    "error.next_step.replace('runtime.options.', 'options.')": "the keystore's option has the same "
    "name under another key",
    # the same text once more
    "str(error) not in told": "a warning is printed once in a process",
    "unwell.answer != tested.error": "a new answer of Triton's replaces the one before",
    "self._failed.why == word.error": "an error that lasts is told once",
    "'Traceback' not in one.found": "the contract of a check",
}
"""The source of a place to why it may read a text."""


class Place(NamedTuple):
    """Where a sentence is read again."""

    file: str
    line: int
    source: str


def places(root: Path = SRC) -> Iterator[Place]:
    """Yield every place in the modules below *root*."""
    for file in sorted(root.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        name = file.relative_to(root).as_posix()
        for node in found(ast.parse(text)):
            yield Place(name, node.lineno, ast.unparse(node))


def found(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield each expression of a module that reads a sentence again."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if _compares(node):
                yield node
            case ast.Call() if _searches(node):
                yield node


def _compares(node: ast.Compare) -> bool:
    sides = (node.left, *node.comparators)
    for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
        match operator:
            case ast.In() | ast.NotIn():
                if _is_sentence(right) or (_is_sentence(left) and not _is_words(right)):
                    return True
            case ast.Eq() | ast.NotEq():
                if _is_sentence(left) and _is_sentence(right):
                    return True
                if any(_is_sentence(one) for one in (left, right)) and _are_words(left, right):
                    return True
    return False


def _searches(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in _SEARCHING and _is_sentence(node.func.value):
        return bool(node.args) and not _is_space(node.args[0])
    return node.func.attr in _PATTERNS and any(_is_sentence(one) for one in node.args)


def _is_sentence(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _NAMES
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in SENTENCES
        case ast.BoolOp(values=values):
            return any(map(_is_sentence, values))
        case ast.Call():
            return _returns_sentence(node)
    return False


def _returns_sentence(node: ast.Call) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name in SENTENCES
        case ast.Call(func=ast.Attribute(attr="lower" | "strip", value=inner)):
            return _is_sentence(inner)
        case ast.Call(func=ast.Name(id="str" | "first_words"), args=[ast.Name(id=name)]):
            return name in _ERRORS or name in _NAMES
        case ast.Call(func=ast.Name(id="str" | "first_words"), args=[inner]):
            return _is_sentence(inner)
    return False


def _are_words(*sides: ast.expr) -> bool:
    """Say whether one side is a text that is written there; what a text was before is none."""
    return any(isinstance(one, ast.Constant) and one.value not in ("", None) for one in sides)


def _is_space(node: ast.expr) -> bool:
    """Say whether *node* is what separates lines or paragraphs: that is how a text is laid out."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isspace()


def _is_words(node: ast.expr) -> bool:
    """Say whether *node* lists words: what is one of them is a word, and not a sentence."""
    return isinstance(node, ast.Tuple | ast.List | ast.Set)


def complaints(root: Path = SRC, allowed: Mapping[str, str] = FOREIGN) -> Iterator[str]:
    """Yield a line for each place, and for each exception of which there is none any more."""
    here = list(places(root))
    for one in here:
        if one.source not in allowed:
            yield f"{one.file}:{one.line}: reads a sentence again: {one.source}"
    for source in sorted(allowed.keys() - {one.source for one in here}):
        yield f"FOREIGN names what is not there: {source}"


def main() -> int:
    """Print what is wrong; return 1 when something is."""
    said = list(complaints())
    print(*said, sep="\n", end="\n" * bool(said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
