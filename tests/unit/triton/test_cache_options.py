"""The response cache: tritonserver's options for it, who has one, and who uses it."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.domain.spec import CacheSpec, InstanceSpec, ModelsSpec, TritonSpec
from tarn.interfaces import Finding
from tarn.triton import fitting, response_cache, start
from tarn.triton.binary import TritonProgram, Wheel
from tarn.triton.command import argv, findings

CACHE = CacheSpec(256)
FOLDER = "/wheel/caches"


def line(**triton: Any) -> list[str]:
    launch = Launch(ModelsSpec("/m"), TritonSpec(**triton), InstanceSpec(), "/m", "h")
    ports = Endpoint("127.0.0.1", 8000, 8001, 8002)
    return argv(launch, ports, "tritonserver", bind="127.0.0.1", cache_directory=FOLDER)


def of_cache(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(("--cache-", "--response-cache"))]


def test_its_size_is_bytes_and_the_folder_of_the_wheel_goes_with_it() -> None:
    """Without a cache neither is passed: a Triton before 23.03 knows no such option."""
    assert of_cache(line(cache=CACHE)) == [
        "--cache-config=local,size=268435456",
        f"--cache-directory={FOLDER}",
    ]
    assert of_cache(line()) == []


@pytest.mark.parametrize("option", ["cache-config", "cache_config", "response-cache-byte-size"])
def test_a_cache_in_the_arguments_gets_the_folder_too(option: str) -> None:
    """For a cache of another kind, or an old habit; a folder of the user's replaces ours."""
    given: dict[str, object] = {option: "local,size=1048576"}
    assert f"--cache-directory={FOLDER}" in line(args=given)
    assert of_cache(line(args={**given, "cache-directory": "/mine"}))[-1] == (
        "--cache-directory=/mine"
    )


def test_on_a_node_the_folder_is_that_of_the_program_which_was_found_there() -> None:
    """The master cannot know it."""
    program = TritonProgram("/bin/t", "/b", (), FOLDER)
    assert start.words(program, ["--id=1"]) == ["/bin/t", "--id=1", "--backend-directory=/b"]
    asked = "--cache-config=local,size=1"
    assert start.words(program, [asked]) == [
        "/bin/t", asked, "--backend-directory=/b", f"--cache-directory={FOLDER}",
    ]  # fmt: skip
    assert start.words(program, [asked, "--cache-directory=/mine"])[-1] != (
        f"--cache-directory={FOLDER}"
    )
    assert start.words(TritonProgram("/bin/t"), [asked]) == ["/bin/t", asked]


@pytest.mark.parametrize("option", ["cache-config", "--cache_config", "response-cache-byte-size"])
def test_two_caches_contradict_each_other(option: str) -> None:
    """Triton has one; it would end at the start."""
    spec = ClusterSpec("c", ModelsSpec("/m"), TritonSpec(cache=CACHE, args={option: "x,y=1"}))
    (found,) = findings(spec, "127.0.0.1")
    assert (found.code, found.where) == ("TARN-2003", f"triton.args.{option}")
    alone = attrs.evolve(spec, triton=attrs.evolve(spec.triton, cache=None))
    assert list(findings(alone, "127.0.0.1")) == []


@pytest.mark.parametrize("size", [0, -1, 1 << 25])
def test_a_size_out_of_bounds_is_no_size(size: int) -> None:
    """The least is what any Triton starts with."""
    with pytest.raises(ValueError, match="size_mib"):
        CacheSpec(size)


def server_findings(triton: TritonSpec, program: Any, monkeypatch: Any) -> list[Finding]:
    monkeypatch.setattr(response_cache, "locate", lambda *_: program)
    return list(response_cache.server_findings(triton, {}))


def test_a_wheel_without_a_cache_is_told_before_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    """Triton itself would end, with a message that it cannot open a library."""
    wheel, triton = Wheel(tmp_path, "0.1.0"), TritonSpec(cache=CACHE)
    (found,) = server_findings(triton, wheel, monkeypatch)
    assert (found.code, found.where, found.fatal) == ("TARN-3116", "triton.cache", True)
    assert "nvidia-pytriton 0.1.0" in found.found
    library = wheel.caches / "local" / "libtritoncache_local.so"
    library.parent.mkdir(parents=True)
    library.touch()
    assert server_findings(triton, wheel, monkeypatch) == []
    assert server_findings(TritonSpec(), Wheel(tmp_path / "no", "0"), monkeypatch) == []
    elsewhere = attrs.evolve(triton, args={"cache-directory": str(tmp_path / "other")})
    (missing,) = server_findings(elsewhere, wheel, monkeypatch)
    assert str(tmp_path / "other") in missing.found


def test_another_tritonserver_may_know_its_folder_itself(monkeypatch: Any) -> None:
    """It may be a script; so a folder that is missing here is only noted."""
    (found,) = server_findings(TritonSpec(cache=CACHE), "/opt/my/tritonserver", monkeypatch)
    assert (found.code, found.fatal) == ("TARN-3116", False)


@pytest.mark.parametrize(
    ("image", "old"),
    [
        ("nvcr.io/nvidia/tritonserver:23.02-py3", True),
        ("nvcr.io/nvidia/tritonserver:22.12-py3-min", True),
        ("nvcr.io/nvidia/tritonserver:23.03-py3", False),
        ("nvcr.io/nvidia/tritonserver:26.04-py3", False),
        ("tritonserver:22.01", True),
        ("own/triton:1", False),
        ("own/mytritonserver:22.01", False),
    ],
)
def test_an_image_before_23_03_has_no_cache(image: str, *, old: bool) -> None:
    """Only NVIDIA's tags tell the release."""
    found = list(response_cache.image_findings(TritonSpec(image=image, cache=CACHE)))
    assert [one.code for one in found] == ["TARN-3116"] * old
    assert list(response_cache.image_findings(TritonSpec(image=image))) == []


def repository(place: Path, **enabled: bool) -> str:
    for name, wants in enabled.items():
        (place / name / "1").mkdir(parents=True)
        asked = f"response_cache {{ enable: {'true' if wants else 'false'} }}\n"
        (place / name / "config.pbtxt").write_text(f'backend: "python"\n{asked}')
    return str(place)


@pytest.mark.parametrize(
    ("enabled", "triton", "codes"),
    [
        ({"ocr": True}, TritonSpec(), ["TARN-2347"]),
        ({"ocr": True}, TritonSpec(cache=CACHE), []),
        ({"ocr": True}, TritonSpec(args={"cache-config": "redis,host=x"}), []),
        ({"ocr": False}, TritonSpec(cache=CACHE), ["TARN-2348"]),
        ({"ocr": False}, TritonSpec(), []),
    ],
)
def test_a_model_and_the_spec_must_both_want_it(
    enabled: dict[str, bool], triton: TritonSpec, codes: list[str], tmp_path: Path
) -> None:
    """One without the other does nothing; `tarn up` and `tarn doctor` note it."""
    place = repository(tmp_path, **enabled)
    found = list(fitting.misfits(place, ClusterSpec("c", ModelsSpec(place), triton), None))
    assert [(one.code, one.fatal) for one in found] == [(code, False) for code in codes]
