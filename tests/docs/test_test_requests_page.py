"""The page about test requests: its file is right, and judges answers as the page says."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tarn import config, plugins
from tarn.triton.test_files import LONGEST_FILE, parse
from tarn.triton.test_requests import AnswerVerdict, judge
from tarn.triton.test_sources import MOST_COPIES

PAGE = Path(__file__).parents[2] / "docs/how-to/test-requests.md"
TEXT = PAGE.read_text("utf-8")


def block(language: str) -> str:
    """Return the first fenced block in *language*."""
    found = re.search(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def answer(*data: float) -> bytes:
    outputs = [{"name": "OUT", "datatype": "FP32", "shape": [len(data)], "data": data}]
    return json.dumps({"model_name": "add", "outputs": outputs}).encode()


def test_the_spec_names_a_file_beside_it() -> None:
    plain = {"name": "w", "models": "/models", **yaml.safe_load(block("yaml"))}
    loaded = config.load(plain, environ={}, plugins=plugins.load())
    assert Path(str(loaded.spec.instance.test_request)).name == "test.json"


@pytest.mark.parametrize(
    ("status", "body", "judged"),
    [
        (200, answer(3.0), AnswerVerdict.GOOD),
        (200, answer(3.002), AnswerVerdict.GOOD),
        (200, answer(3.1), AnswerVerdict.BAD),
        (200, answer(3.0, 3.0), AnswerVerdict.BAD),
        (500, b'{"error": "Stub process \'add_0_0\' is not healthy."}', AnswerVerdict.BAD),
        (404, b'{"error": "Request for unknown model"}', AnswerVerdict.BAD),
        (503, b'{"error": "Exceeds maximum queue size"}', AnswerVerdict.LATER),
        (400, b'{"error": "unexpected shape for input"}', AnswerVerdict.UNFIT),
    ],
)
def test_the_file_of_the_page_judges_answers_as_its_table_says(
    status: int, body: bytes, judged: AnswerVerdict
) -> None:
    (request,), flaws = parse(block("json").encode())
    assert flaws == ()
    assert (request.path, request.timeout_s) == ("/v2/models/add/infer", 10.0)
    assert judge(request, status, body, proven=False)[0] is judged


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    words = " ".join(TEXT.split())
    assert f"at most {LONGEST_FILE // 1024} KiB" in words
    assert MOST_COPIES == 8
    assert "once for each copy, up to eight" in words
