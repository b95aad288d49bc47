"""Reads protobuf's text format into fields with their line and column. Pure.

Protobuf's own parser decides whether a file is valid (`tarn.triton.lint.schema`), but its messages
do not know the places of their fields, and it stops at the first mistake. This reader adds the
places, and texts about wrong punctuation.
"""

import bisect
import re
from typing import NoReturn

import attrs

from tarn.interfaces.lint import Flaw, Node, printable

__all__ = ["Broken", "read"]

# Levels of nested messages; a configuration needs six, and protobuf's parser is recursive.
DEEPEST = 32

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<word>-?[A-Za-z0-9_.][A-Za-z0-9_.+-]*)
    |(?P<sign>[][{}<>:,;])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,  # Triton's parser knows the white space of ASCII only
)
_CLOSES = {"{": "}", "<": ">", "[": "]"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Broken(Exception):  # noqa: N818 (a state of the text)
    """The text cannot be parsed; ``flaw`` says where and why."""

    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw
        super().__init__(flaw.found)


@attrs.frozen
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def read(text: str) -> Node:
    """Return the whole text as one message.

    Raises:
        Broken: A brace, a quote, a colon or a value is missing, or there is one too many.
    """
    return _PbtxtReader(text).whole()


class _PbtxtReader:
    """A recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self._size = len(text)
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        found = (
            _Token(match.lastgroup or "", match[0], match.start())
            for match in _TOKEN.finditer(text)
        )
        self._tokens = [token for token in found if token.kind != "space"]
        self._at = 0

    def whole(self) -> Node:
        fields = self._fields(None, 0)
        return Node("", 1, 1, 0, self._size, fields=fields)

    def _fields(self, opening: _Token | None, depth: int) -> tuple[Node, ...]:
        """Read fields up to the brace that closes *opening*, or to the end of the text."""
        if depth > DEEPEST:
            self._fail(opening, f"messages are nested more than {DEEPEST} deep")
        fields: list[Node] = []
        while (token := self._next()) is not None:
            if opening is not None and token.text == _CLOSES[opening.text]:
                return tuple(fields)
            if token.kind != "word":
                self._fail_name(token, opening)
            fields.extend(self._field(token, depth))
            if self._peek() in {",", ";"}:
                self._at += 1
        if opening is not None:
            self._fail_unclosed(opening)
        return tuple(fields)

    def _field(self, name: _Token, depth: int) -> list[Node]:
        colon = self._peek() == ":"
        if colon:
            self._at += 1
        value = self._next()
        if value is not None and value.text == "[":
            return self._list(name, value, depth)
        return [self._value(name, name, value, depth, colon=colon)]

    def _list(self, name: _Token, opening: _Token, depth: int) -> list[Node]:
        """Return a node for each element of ``[a, b]``, at the place of the element."""
        found: list[Node] = []
        token = self._next()
        while token is not None and token.text != "]":
            if found and token.text == ",":
                token = self._next()
            found.append(self._value(name, token or opening, token, depth, colon=True))
            if self._peek() not in {",", "]", ""}:
                self._fail(self._next(), "found {}, where ',' or ']' should be")
            token = self._next()
        if token is None:
            self._fail_unclosed(opening)
        return found

    def _value(
        self, name: _Token, first: _Token, value: _Token | None, depth: int, *, colon: bool
    ) -> Node:
        line, column = self._place(first.start)
        made = Node(name.text, line, column, first.start, first.end)
        if value is not None and value.text in {"{", "<"}:
            fields = self._fields(value, depth + 1)
            return attrs.evolve(made, end=self._tokens[self._at - 1].end, fields=fields)
        if not colon:
            right = f"{name.text}: VALUE, or {name.text} {{ … }}"
            self._fail(name, "{} is followed by neither ':' nor '{'", f"Expected {right}.")
        if value is None or value.kind not in {"word", "string"}:
            self._refuse_open_string(value)
            self._fail(value or name, f"'{name.text}' has no value; found {{}} instead")
        text = _unquoted(value.text) if value.kind == "string" else value.text
        while value.kind == "string" and self._kind() == "string":  # "a" "b" is one string
            value = self._tokens[self._at]
            self._at += 1
            text += _unquoted(value.text)
        return attrs.evolve(made, end=value.end, value=text, quoted=value.kind == "string")

    def _next(self) -> _Token | None:
        if self._at >= len(self._tokens):
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else ""

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _fail(self, at: _Token | None, found: str, right: str = "") -> NoReturn:
        where = at.start if at else max(0, self._size - 1)
        line, column = self._place(where)
        shown = f"'{printable(at.text)}'" if at else "the end"
        raise Broken(Flaw("TARN-2322", found.replace("{}", shown), line, column, right))

    def _fail_unclosed(self, opening: _Token) -> NoReturn:
        closing = _CLOSES[opening.text]
        self._fail(opening, f"{{}} is opened here and never closed: a '{closing}' is missing")

    def _refuse_open_string(self, token: _Token | None) -> None:
        if token is not None and token.kind == "other" and token.text in {'"', "'"}:
            self._fail(token, "a string begins here and does not end on its line")

    def _fail_name(self, token: _Token, opening: _Token | None) -> NoReturn:
        self._refuse_open_string(token)
        if token.text in _CLOSES.values():
            if opening is None:
                self._fail(
                    token, "{} closes nothing: there is one too many, or the opening one is missing"
                )
            line, _ = self._place(opening.start)
            closing = _CLOSES[opening.text]
            self._fail(
                token, f"found {{}}, but the '{opening.text}' of line {line} needs '{closing}'"
            )
        self._fail(token, "found {}, where the name of a field should be")


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_meant, text[1:-1])


def _meant(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
