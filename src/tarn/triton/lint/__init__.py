"""Lint of a model repository: scan it, apply the rules, repair what is certain.

The values are in `tarn.interfaces.lint`; the rules come from plugins (``tarn_lint_rules``).
"""

from tarn.triton.lint.backends import (
    BACKENDS,
    FOREST_FILES,
    PLATFORMS,
    Backend,
    Stubs,
    backend_of,
    completes_itself,
    file_of,
    nearest,
    served_versions,
    stubs,
)
from tarn.triton.lint.repair import Repairs, carry_out, findings, gather
from tarn.triton.lint.scan import scan
from tarn.triton.lint.schema import Schema, load
from tarn.triton.lint.traits import traits_in

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
    "traits_in",
]
