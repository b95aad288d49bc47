"""Checked by mypy, never run: the types of what ``import tarn`` offers."""

from typing import assert_type

import tarn

assert_type(tarn.__version__, str)
