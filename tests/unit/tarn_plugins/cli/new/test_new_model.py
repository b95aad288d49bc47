"""`tarn new model`: what it writes is a repository in which lint finds nothing."""

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lint_cases import found, said

from tarn.errors import ConfigError, ProviderMissingError, RefusedError
from tarn_plugins.cli.new import commands, signature
from tarn_plugins.cli.new.signature import ModelSignature, TensorShape
from tarn_plugins.cli.new.templates import NewModel

IMAGE = ("--input", "IN:FP32:1,3,8,8", "--output", "OUT:FP32:1,10")
SOURCES = {
    "python": (),
    "net.onnx": IMAGE,
    "net.pt": IMAGE,
    "trees.joblib": (),
}


def new(tmp_path: Path, *words: str) -> Result:
    """Run the verb in *tmp_path*."""
    arguments = ["model", *words, "--repository", str(tmp_path / "models")]
    return CliRunner().invoke(commands.new, arguments, catch_exceptions=False)


def source(tmp_path: Path, name: str) -> str:
    """Return the value of ``--from``; there is such a file."""
    if name == "python":
        return name
    (tmp_path / name).write_bytes(b"a model")
    return str(tmp_path / name)


@pytest.mark.parametrize("triton", ["wheel", "image"])
@pytest.mark.parametrize("name", SOURCES)
def test_what_is_written_is_clean_and_whole(tmp_path: Path, name: str, triton: str) -> None:
    """The user's file is copied, a program can be read, and a request fits the inputs."""
    given = source(tmp_path, name)
    done = new(tmp_path, "mine", "--from", given, "--for", triton, *SOURCES[name])
    folder = tmp_path / "models" / "mine"
    assert said(found(tmp_path / "models")) == []
    listed = {str(folder / path) for path in folder.rglob("*") if path.is_file()}
    assert set(done.stdout.splitlines()) == {str(path) for path in listed}
    if name != "python":
        assert any(path.read_bytes() == b"a model" for path in folder.glob("1/*"))
    program = folder / "1" / "model.py"
    assert program.exists() == (triton == "wheel" or name in ("python", "trees.joblib"))
    if program.exists():
        ast.parse(program.read_text())
    body = json.loads((folder / "request.json").read_text())
    assert [one["name"] for one in body["inputs"]] == ["IN"]
    for step in ("tarn lint", "tarn up", "tarn verify"):
        assert step in done.stderr


def test_a_model_that_exists_is_left_alone(tmp_path: Path) -> None:
    """Nor is anything left of an attempt that fails."""
    new(tmp_path, "mine")
    with pytest.raises(RefusedError, match="exists already"):
        new(tmp_path, "mine")
    with pytest.raises(OSError, match="directory"):
        (tmp_path / "folder.joblib").mkdir()
        commands._write(
            NewModel("other", "sklearn", ModelSignature((), ()), for_wheel=True),
            str(tmp_path / "folder.joblib"),
            tmp_path / "models" / "other",
        )
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a/b",), "no name of a model"),
        ((".a",), "no name of a model"),
        (("a", "--from", "net.h5"), "ends in nothing that is known"),
        (("a", "--from", "missing.onnx"), "there is no file"),
        (("a", "--input", "IN:FP32:3"), "--output: missing"),
        (("a", "--output", "OUT:FP32:3"), "--input: missing"),
        (("a", "--input", "IN:FP31:3", "--output", "OUT:FP32:3"), "does not describe a tensor"),
        (("a", "--input", "IN:FP32:x", "--output", "OUT:FP32:3"), "does not describe a tensor"),
        (("a", "--input", "IN", "--output", "OUT:FP32:3"), "does not describe a tensor"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    """Where, what and what would be right; nothing is written."""
    with pytest.raises(ConfigError, match=message):
        new(tmp_path, *words)
    assert not (tmp_path / "models").exists()


def test_a_torchscript_file_needs_names(tmp_path: Path) -> None:
    """The message has options that work."""
    given = source(tmp_path, "net.pt")
    with pytest.raises(ConfigError, match="does not say which tensors") as caught:
        new(tmp_path, "net", "--from", given)
    words = str(caught.value.next_step).partition("--input")[2].split()
    new(tmp_path, "net", "--from", given, "--input", *words)
    assert said(found(tmp_path / "models")) == []


def test_without_the_package_onnx_its_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the way without it."""

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(signature.importlib, "import_module", absent)
    with pytest.raises(ProviderMissingError, match="onnx") as caught:
        new(tmp_path, "net", "--from", source(tmp_path, "net.onnx"))
    assert "--input" in str(caught.value.next_step)


def test_a_tensor_without_an_axis_gets_the_one_that_triton_wants(tmp_path: Path) -> None:
    """It is reshaped away again before the model sees it."""
    one = TensorShape("IN", "BOOL", ())
    made = NewModel("scalar", "onnx", ModelSignature((one,), (one,), batches=True), for_wheel=False)
    assert "dims: [ 1 ], reshape { shape: [ ] }" in made.texts()["config.pbtxt"]
    assert json.loads(made.texts()["request.json"])["inputs"] == [
        {"name": "IN", "shape": [1], "datatype": "BOOL", "data": [False]}
    ]
