"""39: the Java TARN put tokens and values into a command line, unquoted."""

from pathlib import Path

from compat.fleets import house, spec
from house import House

__all__ = ["house"]


ODD = "b c $(id)"


def test_a_value_arrives_byte_for_byte_and_no_secret_is_an_argument(house: House) -> None:
    """Neither a shell nor `ps` sees them."""
    path = spec(house)
    done = house.tarn("up", "-f", path, "--env", f"A={ODD}", TARN_TOKEN="sesame-open-0123456789")
    assert done.returncode == 0, done.stderr
    (pid,) = house.tritons("w")
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert f"A={ODD}".encode() in environ
    assert (house.directory("w") / "api_token").read_text() == "sesame-open-0123456789"
    for argv in house.processes("w").values():
        assert "sesame" not in " ".join(argv)
