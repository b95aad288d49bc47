"""A ResourceManager that is too old is refused with both versions."""

import pytest

from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.versions import of_manager, refuse_old


@pytest.mark.parametrize("version", ["3.2.4", "3.1.1.7.1.9.0-387", "2.10.2", "3.2.99-x"])
def test_below_the_floor_is_refused(version: str) -> None:
    """With what each side is, where, and what to do; a preflight shows it as a finding."""
    with pytest.raises(LaunchError) as caught:
        refuse_old(version, "3.4.2", "http://rm:8088")
    finding = from_error(caught.value)
    assert finding.code == "TARN-3121"
    assert finding.where == "http://rm:8088"
    assert finding.fatal
    for words in (f"Hadoop {version}", "Hadoop 3.4.2", "3.3.0 or newer"):
        assert words in finding.found
    assert "HADOOP_CONF_DIR" in finding.next_step


@pytest.mark.parametrize("version", ["3.3.0", "3.3.6.1.2.4.0-32", "3.4.2", "4.0.0", "", "trunk"])
def test_from_the_floor_on_or_unknown_is_let_through(version: str) -> None:
    """Nothing is refused for what it does not say."""
    refuse_old(version, "3.3.0", "http://rm:8088")


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"clusterInfo": {"hadoopVersion": "3.3.6", "resourceManagerVersion": "x"}}, "3.3.6"),
        ({"clusterInfo": {}}, ""),
        ({"clusterInfo": None}, ""),
        ({}, ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_the_answer_is_read_and_its_absence_survived(info: object, version: str) -> None:
    """No web page, a login page, a router: then nothing is known."""
    assert of_manager(info) == version
