"""Convert between attrs classes and plain data, with all problems at once. Pure.

`tarn.config` uses it for the spec, and `tarn.plugins` for the settings of providers.
"""

from tarn.plain.describe import REQUIRED, Option, describe, options
from tarn.plain.mask import MASK, SecretMasker, forms, masked, redact, secret_path
from tarn.plain.problem import Problem, did_you_mean, in_quotes, join, shown
from tarn.plain.structure import Doubtful, doubt, from_record, structure, to_record, unstructure
from tarn.plain.text import VisibleStream, not_empty, pasted, underlying, visible
from tarn.plain.units import (
    UNITS,
    Amount,
    Unit,
    Within,
    amount,
    amount_text,
    key_of,
    seconds,
    since,
    unit_of,
)

__all__ = [
    "MASK",
    "REQUIRED",
    "UNITS",
    "Amount",
    "Doubtful",
    "Option",
    "Problem",
    "SecretMasker",
    "Unit",
    "VisibleStream",
    "Within",
    "amount",
    "amount_text",
    "describe",
    "did_you_mean",
    "doubt",
    "forms",
    "from_record",
    "in_quotes",
    "join",
    "key_of",
    "masked",
    "not_empty",
    "options",
    "pasted",
    "redact",
    "seconds",
    "secret_path",
    "shown",
    "since",
    "structure",
    "to_record",
    "underlying",
    "unit_of",
    "unstructure",
    "visible",
]
