"""Lint of a model repository: look at it, ask the rules, repair what is beyond doubt.

The values are in `tarn.domain.lint`; the rules come from plugins (``tarn_lint_rules``).
"""

from tarn.triton.lint.backends import (
    BACKENDS,
    FOREST_FILES,
    PLATFORMS,
    Backend,
    backend_of,
    completes_itself,
    file_of,
    served_versions,
)
from tarn.triton.lint.nearest import nearest
from tarn.triton.lint.repair import Repairs, carry_out, gather
from tarn.triton.lint.run import findings
from tarn.triton.lint.scan import scan
from tarn.triton.lint.schema import Schema, load
from tarn.triton.lint.stubs import Stubs, stubs

__all__ = [
    "BACKENDS",
    "FOREST_FILES",
    "PLATFORMS",
    "Backend",
    "Repairs",
    "Schema",
    "Stubs",
    "backend_of",
    "carry_out",
    "completes_itself",
    "file_of",
    "findings",
    "gather",
    "load",
    "nearest",
    "scan",
    "served_versions",
    "stubs",
]
