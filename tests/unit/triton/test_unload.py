"""In which order a Triton's models are unloaded."""

from tarn.triton.control import first, path
from tarn.triton.metrics import parse

LINES = """
nv_inference_request_success{model="callee",version="1"} 40
nv_inference_request_success{model="caller",version="1"} 10
nv_inference_request_success{model="idle",version="1"} 0
nv_inference_request_duration_us{model="callee",version="1"} 4000
nv_inference_request_duration_us{model="caller",version="1"} 9000
nv_inference_request_duration_us{model="idle",version="1"} 0
"""


def test_who_may_call_another_model_goes_before_it() -> None:
    """Its requests take longer than the calls they wait for; what is unknown goes first of all."""
    seen = parse(LINES.encode())
    left = ["callee", "caller", "idle"]
    order = []
    while left:
        order.append(first(left, seen))
        left.remove(order[-1])
    assert order == ["idle", "caller", "callee"]


def test_without_a_scrape_any_order_is_as_good() -> None:
    """But it is always the same one."""
    assert first(["b", "a"], None) == "a"


def test_a_name_is_one_part_of_the_path() -> None:
    """Whatever stands in it."""
    assert path("a/b c") == "/v2/repository/models/a%2Fb%20c/unload"
