"""Commands that a person is told to paste into a shell."""

import shlex

__all__ = ["pasted"]


def pasted(*words: object) -> str:
    """Return *words* as one line for a shell, each in quotes where it needs them.

    All that a person is told to paste goes through here: a model may be called ``$(…)``.
    """
    return shlex.join(str(word) for word in words)
