"""The lines and sections of a ``haproxy.cfg``. Pure.

Facts are of HAProxy's configuration manual, 2.6: sections, quoting (2.2), ``defaults`` (4).
"""

import re
import shlex
from collections.abc import Iterator

import attrs

__all__ = ["ConfigLine", "Said", "Section", "sections"]

_SECTION = re.compile(
    r"global|defaults|frontend|backend|listen|peers|resolvers|userlist|mailers|program|cache"
    r"|http-errors|ring|log-forward|fcgi-app"
)
Said = tuple[str, int, str]
"""(code, line, what was found)"""


@attrs.frozen
class ConfigLine:
    """One line that says something."""

    number: int
    words: tuple[str, ...]

    def starts(self, *words: str) -> bool:
        """Say whether it begins so."""
        return self.words[: len(words)] == words

    def after(self, word: str) -> str:
        """Return the word behind *word*; empty where there is none."""
        at = self.words.index(word) + 1 if word in self.words else len(self.words)
        return self.words[at] if at < len(self.words) else ""


@attrs.frozen
class Section:
    """A section, with the lines that it takes from ``defaults`` before its own."""

    kind: str
    name: str
    number: int
    lines: tuple[ConfigLine, ...]

    def last(self, *words: str) -> ConfigLine | None:
        """Return the line that counts of those that begin with *words*, ``no`` before or not."""
        found = [one for one in self.lines if one.starts(*words) or one.starts("no", *words)]
        return found[-1] if found and found[-1].words[0] != "no" else None


def _lines(text: str) -> Iterator[ConfigLine]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = tuple(shlex.split(line, comments=True))
        except ValueError:  # a quote without its end: HAProxy refuses the file itself
            words = tuple(line.split())
        if words and not words[0].startswith("."):  # `.if` and its like
            yield ConfigLine(number, words)


def sections(text: str) -> Iterator[Section]:
    """Yield the sections; ``defaults`` are given to those that follow, or that name them."""
    named: dict[str, tuple[ConfigLine, ...]] = {}
    latest: tuple[ConfigLine, ...] = ()
    for head, body in _bodies(text):
        kind, name = head.words[0], head.words[1] if len(head.words) > 1 else ""
        given = named.get(head.after("from"), latest)
        if kind == "defaults":
            latest = (*(given if "from" in head.words else ()), *body)
            named[name] = latest
        inherits = kind in ("frontend", "backend", "listen")
        yield Section(kind, name, head.number, (*given, *body) if inherits else body)


def _bodies(text: str) -> Iterator[tuple[ConfigLine, tuple[ConfigLine, ...]]]:
    head: ConfigLine | None = None
    body: list[ConfigLine] = []
    for line in _lines(text):
        if _SECTION.fullmatch(line.words[0]):
            if head is not None:
                yield head, tuple(body)
            head, body = line, []
        else:
            body.append(line)
    if head is not None:
        yield head, tuple(body)
