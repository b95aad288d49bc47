"""Words that TARN's texts do without, and what to write instead.

``python tests/house_words.py [PATH ...]`` names each place in ``src``, ``docs``, ``examples`` and
``README.md`` where one stands, and ends with status 1 when there is one. Identifiers, code in
backticks, web addresses and the examples in pages are not looked at.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LOOKED_AT = ("src", "docs", "examples", "README.md")
KINDS = (".py", ".md", ".js", ".html", ".lua", ".yaml")

_NATURAL = (
    "better|bigger|broader|different|doubt|exception|faster|fewer|good|guarantee|harm|"
    "higher|larger|less|longer|lower|more|need|news|older|one|other|point|reason|slower|smaller|"
    "such|use|way|wider|without|worse"
)
"""What may follow "is no": comparisons, and what English says in this way."""

_IS_NO = (
    r"(?<!there\s)(?<!there's\s)(?:is|are|was|were) (?-i:no) "
    rf"(?!(?:{_NATURAL})\b)\w[\w-]*"
)
WORDS = {
    r"mend(?:s|ed|ing)?": "fix, correct",
    r"anew": "again",
    r"beside": "next to, besides",
    r"of no use": "cannot be used",
    _IS_NO: "is not a ...",
    r"what stands there": "say what it is",
    r"only so (?:many|long)|so (?:many|long) (?:before|ago|last)": "the last N, ten minutes ago",
    r"(?-i:Who|What)ever": "everybody who, the one that, any",
    r"(?:good|last) word|the word of|(?:our|its|their|whose) word": "answer, acknowledgement",
    r"without a word": "without a message",
}
"""A pattern, found as whole words and in any case; and what to write in its place."""

_PATTERNS = {
    re.compile(rf"(?<![\w-])(?:{pattern.replace(' ', ' +')})(?![\w-])", re.IGNORECASE): instead
    for pattern, instead in WORDS.items()
}
_NOT_PROSE = re.compile(r"``.*?``|`[^`\n]*`|\{[^{}]*\}|\w+://\S+|%\(\w+\)s", re.DOTALL)
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_TOKENS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class Found(NamedTuple):
    """A word that has a better one."""

    line: int
    word: str
    instead: str


def found(name: str, text: str) -> list[Found]:
    """Return the dropped words of a file's *text*; its *name* says of which kind it is."""
    return sorted({one for line, prose in _prose(name, text) for one in _in(line, prose)})


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files below *paths* that have texts."""
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in inside if file.suffix in KINDS and file.is_file())


def main(*paths: str) -> int:
    """Print every place; return 1 when there is one."""
    places = 0
    for file in files([Path(path) for path in paths] or [ROOT / name for name in LOOKED_AT]):
        for one in found(file.name, file.read_text(encoding="utf-8")):
            places += 1
            print(f"{file}:{one.line}: '{one.word}': write {one.instead}")
    print(f"{places} dropped words")
    return int(places > 0)


def _prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts that people read, each with its first line."""
    if name.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _TOKENS and " " in token.string:
                yield token.start[0], _blank(_NOT_PROSE, token.string)
    elif name.endswith(".md"):
        yield 1, _blank(_NOT_PROSE, _blank(_FENCE, text))
    else:
        yield 1, text


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace what matches by nothing that is a word; lines stay where they are."""
    return pattern.sub(lambda match: "·" + "\n" * match[0].count("\n"), text)


def _in(line: int, prose: str) -> Iterator[Found]:
    flat = re.sub(r"\s", " ", re.sub(r'"\s*\n\s*f?r?"', lambda match: " " * len(match[0]), prose))
    for pattern, instead in _PATTERNS.items():
        for match in pattern.finditer(flat):
            yield Found(line + prose.count("\n", 0, match.start()), match[0], instead)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
