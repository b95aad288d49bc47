"""What of a site's set-up for Ranger is seen and said before a master starts, and what it gets."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.config.relative import options_absolute
from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import structure
from tarn_plugins.authorizer.ranger import site as site_files
from tarn_plugins.authorizer.ranger.site import RangerSettings, examine, read

URL = "ranger.plugin.triton.policy.rest.url"
AUDIT = {
    "xasecure.audit.is.enabled": "true",
    "xasecure.audit.destination.log4j": "true",
}
Write = Callable[..., RangerSettings]


@pytest.fixture
def site(tmp_path: Path) -> Write:
    """Write what a site has; None leaves a file out."""

    def write(
        security: dict[str, str] | None, audits: dict[str, str] | None, **more: Any
    ) -> RangerSettings:
        folder = tmp_path / "site"
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        (folder / "lib" / "ranger-plugins-common-2.9.0.jar").touch()
        for kind, content in (("security", security), ("audit", audits)):
            if content is not None:
                (folder / f"ranger-triton-{kind}.xml").write_bytes(
                    site_files.render_properties(content)
                )
        return RangerSettings(service="triton_prod", conf_dir=folder, **more)

    return write


def codes(settings: RangerSettings) -> list[str]:
    return [one.code for one in examine(settings)]


def test_a_site_that_is_set_up_has_no_findings(site: Write) -> None:
    """Its files are read, and its jars are found beside them."""
    settings = site({URL: "http://r:6080"}, AUDIT)
    assert codes(settings) == []
    found = read(settings)
    assert found.security[URL] == "http://r:6080"
    assert [jar.name for jar in found.jars] == ["ranger-plugins-common-2.9.0.jar"]
    assert not found.logs


@pytest.mark.parametrize(
    ("security", "audit", "said"),
    [
        (None, AUDIT, ["TARN-3400"]),
        ({}, AUDIT, ["TARN-3403"]),
        ({URL: " "}, AUDIT, ["TARN-3403"]),
        ({URL: "u"}, None, ["TARN-3404"]),
        ({URL: "u"}, {"xasecure.audit.is.enabled": "false"}, ["TARN-3404"]),
        ({URL: "u"}, {"xasecure.audit.is.enabled": "true"}, ["TARN-3404"]),
        ({URL: "u"}, {"xasecure.audit.destination.solr": "true"}, []),
        ({}, None, ["TARN-3403", "TARN-3404"]),
    ],
)
def test_what_is_missing_is_told_all_at_once(
    site: Write, security: dict[str, str] | None, audit: dict[str, str] | None, said: list[str]
) -> None:
    """A master would deny everything, or audit nothing, without a word."""
    settings = site(security, audit)
    assert codes(settings) == said
    if said:
        with pytest.raises(ConfigErrors) as caught:
            read(settings)
        assert [error.code for error in caught.value.errors] == said


def test_without_audit_no_file_of_it_is_needed(site: Write) -> None:
    """`audit: false` is an answer, too."""
    assert codes(site({URL: "u"}, None, audit=False)) == []


def test_a_directory_and_jars_that_are_not_there_are_told(tmp_path: Path) -> None:
    """Both at once."""
    nowhere = tmp_path / "nowhere"
    assert codes(RangerSettings("s", conf_dir=nowhere)) == ["TARN-3400", "TARN-3401"]
    assert codes(RangerSettings("s", conf_dir=nowhere, jars=nowhere)) == ["TARN-3400", "TARN-3401"]
    jars = (tmp_path / "ranger-plugins-common.jar",)
    assert codes(RangerSettings("s", conf_dir=nowhere, jars=jars)) == ["TARN-3400", "TARN-3401"]
    jars[0].touch()
    assert codes(RangerSettings("s", conf_dir=nowhere, jars=jars)) == ["TARN-3400"]


def test_files_that_cannot_be_read_are_told(site: Write) -> None:
    """With the file and the line; one that could read other files is no configuration."""
    settings = site({URL: "u"}, AUDIT)
    file = settings.conf_dir / "ranger-triton-security.xml"
    file.write_text("<configuration>\n<property>")
    (finding,) = examine(settings)
    assert finding.code == "TARN-3402"
    assert str(file) in finding.found
    assert "line 2" in finding.found
    file.write_text('<!DOCTYPE c [<!ENTITY e SYSTEM "/etc/passwd">]><configuration/>')
    (finding,) = examine(settings)
    assert "document type" in finding.found
    file.write_text("<topology/>")
    (finding,) = examine(settings)
    assert "<topology>" in finding.found


def test_a_file_for_the_service_counts_more(site: Write) -> None:
    """Ranger reads both; ours must not be overruled by it."""
    settings = site({URL: "u", "x": "1"}, AUDIT)
    (settings.conf_dir / "ranger-triton-triton_prod-security.xml").write_bytes(
        site_files.render_properties(
            {"x": "2", "ranger.plugin.triton.policy.cache.dir": "/elsewhere"}
        )
    )
    found = read(settings)
    assert found.security["x"] == "2"
    places = site_files.RangerDirectories.below(Path("/cluster"), Path("/logs"))
    files = site_files.rendered(settings, found, places)
    for middle in ("triton", "triton-triton_prod"):
        made = site_files.parse_properties(files[f"ranger-{middle}-security.xml"], "made")
        assert made["ranger.plugin.triton.policy.cache.dir"] == "/cluster/ranger/cache"
        assert made["ranger.plugin.triton.service.name"] == "triton_prod"
        assert made[URL] == "u"


def test_audits_go_where_the_site_says_and_lose_nothing_on_the_way(site: Write) -> None:
    """A file at once, others by a spool of the cluster's own, unless the site names one."""
    solr = "xasecure.audit.destination.solr"
    settings = site({URL: "u"}, {**AUDIT, solr: "true"})
    places = site_files.RangerDirectories.below(Path("/cluster"), Path("/logs"))
    files = site_files.rendered(settings, read(settings), places)
    made = site_files.parse_properties(files["ranger-triton-audit.xml"], "made")
    assert made["xasecure.audit.destination.log4j.queue"] == "none"
    assert made[f"{solr}.batch.filespool.dir"] == "/cluster/ranger/spool/solr"
    assert b"audit.file=/logs/ranger-audit.log" in files["log4j.properties"]
    own = {**AUDIT, solr: "true", f"{solr}.batch.filespool.dir": "/var/spool/x"}
    settings = site({URL: "u"}, own)
    (settings.conf_dir / "log4j.properties").touch()
    files = site_files.rendered(settings, read(settings), places)
    made = site_files.parse_properties(files["ranger-triton-audit.xml"], "made")
    assert made[f"{solr}.batch.filespool.dir"] == "/var/spool/x"
    assert "log4j.properties" not in files, "the site's own counts"
    quiet = site({URL: "u"}, own, audit=False)
    files = site_files.rendered(quiet, read(quiet), places)
    made = site_files.parse_properties(files["ranger-triton-audit.xml"], "made")
    assert made == {"xasecure.audit.is.enabled": "false"}


def test_the_configuration_is_written_for_its_owner_only(site: Write, tmp_path: Path) -> None:
    """The site's file may hold a password; what an earlier master left there is gone."""
    settings = site({URL: "u"}, AUDIT)
    places = site_files.RangerDirectories.below(tmp_path / "cluster", tmp_path / "logs")
    for _ in range(2):
        site_files.write(site_files.rendered(settings, read(settings), places), places)
        (places.conf / "of-before.xml").touch()
    site_files.write({"a.xml": b"x"}, places)
    assert [path.name for path in places.conf.iterdir()] == ["a.xml"]
    assert (places.conf / "a.xml").stat().st_mode & 0o777 == 0o600
    assert places.conf.stat().st_mode & 0o777 == 0o700
    assert places.cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"service": "a/b"}, "not the name of a Ranger service"),
        ({"service": ""}, "not the name of a Ranger service"),
        ({"service": "a", "app_id": "../x"}, "part of file names"),
        ({"service": "a", "strict": False}, "would open every model"),
        ({"app_id": "a"}, "service is missing"),
        ({"service": "a", "services": "b"}, "unknown key"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], said: str) -> None:
    """Contract 38: what would fail open is one of them."""
    value, problems = structure(RangerSettings, options)
    assert value is None
    assert said in " ".join(problem.found for problem in problems)


def test_jars_are_a_directory_or_a_list_and_start_at_the_file(tmp_path: Path) -> None:
    """Relative paths are those of the spec's folder, also in a list."""
    for given_, made in (
        ("lib", tmp_path / "lib"),
        (["a.jar", "/b.jar"], (tmp_path / "a.jar", Path("/b.jar"))),
    ):
        options = options_absolute(
            {"service": "s", "jars": given_}, RangerSettings, tmp_path, "/home/u"
        )
        value, problems = structure(RangerSettings, options)
        assert not problems
        assert value is not None
        assert value.jars == made


def test_the_poll_is_what_the_site_says(site: Write) -> None:
    """Ranger's own default where it says nothing that can be read."""
    key = "ranger.plugin.triton.policy.pollIntervalMs"
    assert site_files.poll_s(read(site({URL: "u", key: "5000"}, AUDIT))) == 5
    assert site_files.poll_s(read(site({URL: "u", key: "soon"}, AUDIT))) == 30


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)


@given(st.dictionaries(names.map(str.strip).filter(bool), names.map(str.strip)))
def test_properties_are_read_as_they_are_written(found: dict[str, str]) -> None:
    """Whatever characters a value has."""
    assert site_files.parse_properties(site_files.render_properties(found), "x") == found


@given(st.binary(max_size=200))
def test_any_file_is_properties_or_a_refusal(data: bytes) -> None:
    """Nothing else comes out."""
    try:
        site_files.parse_properties(data, "x")
    except ConfigError as error:
        assert re.match("it|no", error.found)  # noqa: PT017
