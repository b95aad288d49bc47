"""20: where secrets could not be read, the Java TARN warned, and started containers without."""

import shutil
from pathlib import Path

import pytest
from compat.fleets import house, spec
from house import House

__all__ = ["house"]

pytestmark = pytest.mark.security  # pyjks comes with a compiler only

HADOOPS = Path(__file__).parents[1] / "keystores" / "password.jceks"


@pytest.mark.parametrize(
    ("file", "options", "environ", "said"),
    [
        ("none.jceks", {}, {}, "there is no such file"),
        ("hf.jceks", {}, {}, "the password does not open it"),
        ("hf.jceks", {"password": "env:PW"}, {"PW": "wrong-canary"}, "the password does not open"),
        ("hf.jceks", {"password": "env:PW"}, {}, "the environment variable PW is missing"),
        ("hf.jceks", {"password": "env:PW", "names": {"hf": "HF"}}, {"PW": "s3same"}, "'hf'"),
        ("hf.p12", {}, {}, "is a PKCS12 keystore"),
        ("hf.bcfks", {}, {}, "is a BCFKS keystore"),
    ],
)
def test_nothing_starts_without_its_secrets(
    house: House, file: str, options: dict[str, object], environ: dict[str, str], said: str
) -> None:
    """`up` is refused with the reason, before a master or a directory of the cluster is there."""
    shutil.copyfile(HADOOPS, house.root / "hf.jceks")
    (house.root / "hf.p12").write_bytes(bytes.fromhex("308209f2020103308209b8"))
    (house.root / "hf.bcfks").write_bytes(bytes.fromhex("3082042f30820406302106"))
    store = {"use": "jceks", "options": {"path": file, **options}}
    done = house.tarn("up", "-f", spec(house, secrets=[store]), **environ)
    assert done.returncode == 2
    assert said in done.stderr
    assert "canary" not in done.stdout + done.stderr
    assert not house.directory("w").exists()
    assert house.processes("w") == {}
