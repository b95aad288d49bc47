"""Why a module cannot be used: absent, or what its import said."""

import pytest

from tarn.errors import ProviderMissingError


def failed(error: ImportError, cause: ImportError | None = None) -> ImportError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module named 'acme'", name="acme"), "acme is not installed"),
        (ImportError("acme requires NumPy 2"), "acme cannot be used here: acme requires NumPy 2"),
        (
            failed(ImportError("install acme"), ImportError("acme requires NumPy 2")),
            "acme cannot be used here: acme requires NumPy 2",
        ),
        (
            failed(ImportError("install it"), ModuleNotFoundError("no", name="acme")),
            "acme is not installed",
        ),
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "No module named 'numpy'"),
    ],
)
def test_the_deepest_reason_is_told(error: ImportError, said: str) -> None:
    """What a library hid behind an error of its own is what helps."""
    assert said in ProviderMissingError.reason("acme", error)
