"""A secret value on its way: nothing that prints, logs, compares or writes objects shows it."""

from typing import Final, NoReturn

__all__ = ["MASKED", "Secret"]

MASKED: Final = "***"
"""What stands for a value."""


class Secret:
    """A text that `repr`, `str`, `format`, JSON and pickle do not give away; `reveal` does.

    Equal where the texts are equal. Code that reveals it passes the text on at once, to what needs
    it, and keeps it nowhere else.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; the one way to read it."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASKED})"

    def __str__(self) -> str:
        return MASKED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is never written as text: pass its value on with reveal()")
