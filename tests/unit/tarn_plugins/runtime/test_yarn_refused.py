"""What Java's refusals of a heartbeat become."""

import pytest

from tarn.errors import ProviderError
from tarn.java import Fault
from tarn_plugins.runtime.yarn.hadoop import clients as module
from tarn_plugins.runtime.yarn.hadoop.clients import Handles

EXCEPTIONS = "org.apache.hadoop.yarn.exceptions."
LABEL = (
    f"{EXCEPTIONS}InvalidLabelResourceRequestException",
    f"{EXCEPTIONS}InvalidResourceRequestException",
    f"{EXCEPTIONS}YarnException",
)


@pytest.fixture
def rm(monkeypatch: pytest.MonkeyPatch) -> module.HadoopResourceManager:
    monkeypatch.setattr(module, "_rm_client", lambda _handles, _conf: None)
    return module.HadoopResourceManager(Handles.__new__(Handles), None, mode="plain", epoch="1-1")


def test_an_invalid_ask_is_no_passing_failure(rm: module.HadoopResourceManager) -> None:
    """It is refused with every later heartbeat, and the reason is YARN's own."""
    error = rm._failed("exchange a heartbeat", Fault(LABEL, "no access to label gpu"))
    assert isinstance(error, ProviderError)
    assert error.retry_after_s is None
    assert "InvalidLabelResourceRequestException: no access to label gpu" in error.found
    assert error.next_step


def test_any_other_failure_passes(rm: module.HadoopResourceManager) -> None:
    """The ResourceManager may be away."""
    error = rm._failed("exchange a heartbeat", Fault(("java.net.ConnectException",), "refused"))
    assert isinstance(error, ProviderError)
    assert error.retry_after_s is not None
