"""What a test request to an instance brought. Pure."""

import attrs

__all__ = ["Tested"]


@attrs.frozen
class Tested:
    """The newest test request to an instance, and its answer."""

    __test__ = False  # by its name it could be taken for a class of tests

    asked_s: float
    """Monotonic second at which it was sent."""
    ok: bool
    """It was answered as it should be."""
    said: str = ""
    """Triton's own error, or that there was no answer; empty when it was answered well."""
    number: int = 1
    """Counts the test requests to this instance."""
