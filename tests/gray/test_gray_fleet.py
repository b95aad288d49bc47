"""An instance that passes its health checks and fails its users, on real Tritons under load."""

import pytest
from gray_fleet import GrayFleet

pytestmark = [pytest.mark.gray, pytest.mark.timeout(240)]

FAULTS = {"killed": 6.0, "exits": 6.0, "raises": 6.0, "hangs": 36.0, "stopped": 36.0}
"""Within how many seconds each gets its last request: three times the aim."""


@pytest.mark.parametrize("how", FAULTS)
def test_one_that_fails_its_users_gets_no_more_and_is_replaced(
    gray: GrayFleet, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within seconds; the client loses what was there, and hardly more."""
    seen = gray.strike(how, 90.0)
    with capsys.disabled():
        print(f"\n  {how}: {seen}")
    assert seen.last_sent_s is not None
    assert seen.last_sent_s < FAULTS[how]
    assert seen.replaced_s is not None
