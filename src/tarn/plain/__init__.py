"""Between frozen values and plain data: reading with all problems at once, writing, describing.

For `tarn.config` (the spec) and `tarn.plugins` (a provider's settings) alike. Pure.
"""

from tarn.plain.amount import Amount, Within, amount, amount_text
from tarn.plain.describe import describe
from tarn.plain.doubtful import Doubtful, doubt
from tarn.plain.mask import MASK, masked, redact, secret_path
from tarn.plain.moment import since
from tarn.plain.naming import not_empty
from tarn.plain.options import REQUIRED, Option, options
from tarn.plain.problem import Problem, did_you_mean, in_quotes, join, shown
from tarn.plain.secret_masker import SecretMasker, forms
from tarn.plain.shell import pasted
from tarn.plain.span import seconds
from tarn.plain.structure import structure
from tarn.plain.units import UNITS, Unit, key_of, unit_of
from tarn.plain.unstructure import unstructure
from tarn.plain.visible import VisibleStream, underlying, visible

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
    "underlying",
    "unit_of",
    "unstructure",
    "visible",
]
