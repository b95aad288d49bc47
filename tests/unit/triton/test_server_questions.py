"""Which paths of a Triton concern the whole fleet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.spec import RESTRICTABLE
from tarn.triton.server_questions import QuestionKind, TritonQuestion, question_at

PATHS = {
    "/v2": ("server", "", ""),
    "/v2/models/stats": ("statistics", "", ""),
    "/v2/models/a%20b": ("model", "a b", ""),
    "/v2/models/m/versions/3": ("model", "m", "3"),
    "/v2/models/m/config": ("config", "m", ""),
    "/v2/models/m/versions/3/config": ("config", "m", "3"),
    "/v2/models/m/ready": ("ready", "m", ""),
    "/v2/models/m/versions/1/stats": ("statistics", "m", "1"),
    "/v2/models/m/trace/setting": ("trace", "m", ""),
    "/v2/trace/setting": ("trace", "", ""),
    "/v2/logging": ("log", "", ""),
    "/v2/repository/index": ("index", "", ""),
    "/v2/repository/models/m/load": ("load", "m", ""),
    "/v2/repository/models/m/unload": ("unload", "m", ""),
    "/v2/systemsharedmemory/status": ("memory", "", ""),
    "/v2/systemsharedmemory/unregister": ("memory", "", ""),
    "/v2/systemsharedmemory/region/r/status": ("memory", "", ""),
    "/v2/cudasharedmemory/region/r/register": ("memory", "", ""),
    "/v2/cudasharedmemory/region/r/unregister": ("memory", "", ""),
}


@pytest.mark.parametrize("path", PATHS)
def test_each_path_is_read_with_its_model_and_version(path: str) -> None:
    found = question_at(path)
    assert found is not None
    assert (found.kind, found.model, found.version) == PATHS[path]
    assert found.path == path


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/v2/", "/v2/health/live", "/v2/health/ready", "/v2/models", "/v2/models/"),
        *("/v2/models/m/infer", "/v2/models/m/generate", "/v2/models/m/generate_stream"),
        *("/v2/models/m/versions/1/infer", "/v2/models/m/versions/x", "/v2/models//stats"),
        *("/v2/models/a%2Fb", "/v2/models/a%0Ab", "/v2/models/%FF", "/v2/models/" + "m" * 256),
        *(
            "/v2/repository/models/m/index",
            "/v2/systemsharedmemory/register",
            "/V2",
            "/v2/logging/",
        ),
    ],
)
def test_inference_and_all_else_is_none(path: str) -> None:
    assert question_at(path) is None


@given(st.text())
def test_any_text_is_a_question_or_none(text: str) -> None:
    found = question_at(text)
    assert found is None or "/infer" not in found.path.removeprefix("/v2/models/infer")


def test_only_these_change_something() -> None:
    """The index is asked for by POST, and changes nothing."""
    changing = {kind for kind in QuestionKind if TritonQuestion(kind, "/").changes("POST")}
    writes = {kind for kind in changing if "POST" in TritonQuestion(kind, "/").methods}
    assert writes == {"load", "unload", "trace", "log", "memory"}
    asked = question_at("/v2/cudasharedmemory/status")
    assert asked is not None
    assert asked.methods == ("GET",)
    assert {TritonQuestion(kind, "/").part for kind in QuestionKind} <= set(RESTRICTABLE)
