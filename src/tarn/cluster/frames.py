"""Rows as a pandas frame: the only place that knows pandas."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tarn.errors import ProviderMissingError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Frame", "frame", "missing"]

Frame: TypeAlias = "pd.DataFrame"


def frame(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], times: Collection[str] = ()
) -> Frame:
    """Return *rows* as a frame with exactly *columns*, in this order.

    Args:
        rows: Plain values; what is missing in one is None.
        columns: Their keys; they stand there without rows, too.
        times: Columns of wall seconds, which become UTC times.

    Raises:
        ProviderMissingError: pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 (heavy, and only for who asks for it)
    except ImportError as error:
        raise missing("pandas", "a frame", "notebook", error) from error

    made = pd.DataFrame([[row.get(name) for name in columns] for row in rows], columns=columns)
    for name in times:
        # numbers first: a column of Nones has no type that could become a time
        made[name] = pd.to_datetime(pd.to_numeric(made[name]), unit="s", utc=True)
    return made


def missing(module: str, what: str, extra: str, failed: ImportError) -> ProviderMissingError:
    """Return the error that *what* needs *module*, which the *extra* of tarn brings."""
    error = ProviderMissingError(
        module,
        f"{what} needs {module}: {ProviderMissingError.reason(module, failed)}",
        next_step=f"pip install 'tarn-orchestrator[{extra}]'",
    )
    error.where = ""
    return error
