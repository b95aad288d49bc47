"""A Python that was moved knows where it is, not where it was built."""

import sys
import sysconfig
from pathlib import Path

import pytest

from tarn.triton import binary

NAME = "libpython3.11.so.1.0"


@pytest.mark.parametrize("moved", [True, False])
def test_the_library_of_a_moved_interpreter_is_found(tmp_path, monkeypatch, moved):
    """LIBDIR is a word from its build; an unmoved one of Debian's has it elsewhere than lib."""
    stub, here, built = tmp_path / "stub", tmp_path / "here", tmp_path / "built"
    stub.write_bytes(b"\0" + NAME.encode() + b"\0")
    for folder in (here / "lib", built):
        folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "base_prefix", str(here))
    monkeypatch.setattr(sysconfig, "get_config_var", {"LIBDIR": str(built)}.get)
    right: Path = here / "lib" if moved else built
    (right / NAME).touch()
    assert binary._libpython(stub) == ((str(right),), "")
