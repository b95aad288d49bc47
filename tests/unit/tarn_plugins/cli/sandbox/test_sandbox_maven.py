"""What Maven is asked for, and what its words mean. Its lines are as Maven 3.8.7 wrote them."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.cli.sandbox.commands import sandbox
from tarn_plugins.cli.sandbox.jars import explained, pom, repository_fault
from tarn_plugins.cli.sandbox.options import VERSION, SandboxOptions

OURS = "3.3.6.1.2.4.0-32"
URL = "https://repository.example/maven"
FAILED = (
    "[ERROR] Failed to execute goal on project sandbox: Could not resolve dependencies for project "
    "tarn:sandbox:pom:1: "
)
POM = f"org.apache.hadoop:hadoop-common:pom:{OURS}"


def test_the_project_names_the_version_and_no_registry() -> None:
    """Where the jars come from is Maven's settings' business, unless one is named."""
    text = pom("3.4.1")
    assert "<version>3.4.1</version>" in text
    assert "<repositor" not in text
    assert f"<id>hadoop</id><url>{URL}?a&amp;b</url>" in pom("3.4.1", f"{URL}?a&b")


@pytest.mark.parametrize("version", ["3.4.2", OURS, "3.1.1.7.1.9.1000-103", "3.3.4-amzn-2"])
def test_versions_of_distributions_are_versions(version: str) -> None:
    """Apache's numbers, and what a vendor appends."""
    assert VERSION.fullmatch(version)
    assert SandboxOptions(hadoop=version, repository=URL).repository == URL


@pytest.mark.parametrize(
    "url", [URL, "http://127.0.0.1:8081/a/b/", "file:///srv/maven", "https://[::1]:8443/x-y_z%20"]
)
def test_a_repository_is_a_folder_somewhere(url: str) -> None:
    """By http, https, or on this machine."""
    assert repository_fault(url) == ""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://anna:sesame@repository.example/m", "settings.xml, as the <server> with the id"),
        ("https://sesame@repository.example/m", "settings.xml"),
        ("https://repository.example/m?token=sesame", "a query or a fragment"),
        ("https://repository.example/m#sesame", "a query or a fragment"),
        ("https://repository.example/${env.sesame}", "is not the URL"),
        ("https://repository.example/<sesame>", "is not the URL"),
        ("https:///sesame", "is not the URL"),
        ("/srv/sesame", "is not the URL"),
        ("ftp://sesame/m", "is not the URL"),
        ("https://[sesame/m", "is not the URL"),
        ("https://host:sesame/m", "is not the URL"),
        ("https://host/a sesame", "is not the URL"),
    ],
)
def test_what_is_none_is_refused_and_not_repeated(url: str, words: str) -> None:
    """It may hold a secret, and neither the error nor the options may show it."""
    fault = repository_fault(url)
    assert words in fault
    with pytest.raises(ValueError, match="the repository") as caught:
        SandboxOptions(repository=url)
    done = CliRunner().invoke(sandbox, ["up", "--repository", url])
    assert done.exit_code == 2
    for said in (fault, str(caught.value), done.output):
        assert "anna" not in said
        assert "sesame" not in said


# Before the first of / ? and #: what stands behind it is no user any more.
PART = st.text(st.characters(exclude_characters="/?#\\"), max_size=30)


@given(PART, PART)
def test_no_user_nor_password_passes(user: str, password: str) -> None:
    """Whatever they are made of."""
    assert repository_fault(f"https://{user}:{password}@host/maven")


SAID = {
    "nowhere": (
        f"Could not find artifact org.apache.hadoop:hadoop-common:jar:{OURS} in central "
        "(https://repo.example/maven2) -> [Help 1]"
    ),
    "its dependency": "Could not find artifact com.vendor:jar:jar:7 in hadoop (u) -> [Help 1]",
    "nobody listens": (
        f"Could not transfer artifact {POM} from/to hadoop (http://127.0.0.1:9/m): transfer failed "
        "for http://127.0.0.1:9/m/x.pom: Connect to 127.0.0.1:9 [/127.0.0.1] failed: Connection "
        "refused -> [Help 1]"
    ),
    "a password": (
        f"Could not transfer artifact {POM} from/to hadoop ({URL}): authentication failed for "
        f"{URL}/x.pom, status: 401 Unauthorized -> [Help 1]"
    ),
    "a mirror": (
        f"Could not transfer artifact {POM} from/to inner (https://a:sesame@inner/m): x -> [H"
    ),
    "plain http": (
        f"Could not transfer artifact {POM} from/to maven-default-http-blocker (http://0.0.0.0/): "
        "Blocked mirror for repositories: [hadoop (http://there/m, default, releases+snapshots)] "
        "-> [Help 1]"
    ),
}
PLACES = f"the repositories of Maven's settings, nor in {URL}"


@pytest.mark.parametrize(
    ("case", "found", "next_step"),
    [
        ("nowhere", f"there is no hadoop-common {OURS} in {PLACES}", f"/hadoop-common/{OURS}/"),
        ("its dependency", f"no com.vendor:jar:jar:7 is in {PLACES}", "Check version and URL"),
        (
            "nobody listens",
            "the repository hadoop (http://127.0.0.1:9/m) cannot be reached: transfer failed for",
            "Check its URL, and the proxy",
        ),
        ("a password", "requires a password", "as the <server> with the id hadoop"),
        ("a mirror", "the repository inner (https://***@inner/m) cannot be reached", "Check its"),
        ("plain http", "Maven does not ask http://there/m: it refuses plain http", "Use https"),
    ],
)
def test_what_maven_says_is_put_in_words(case: str, found: str, next_step: str) -> None:
    """What is wrong where, and what to do; never a password."""
    said, step = explained(["[INFO] x", FAILED + SAID[case], "[ERROR] "], OURS, URL)
    assert found in said
    assert next_step in step
    assert "sesame" not in said + step


def test_without_a_repository_a_version_that_is_nowhere_leads_to_one() -> None:
    """Most likely it is a distribution's."""
    words = f"Could not find artifact org.apache.hadoop:hadoop-hdfs:jar:{OURS} in central (x)"
    found, step = explained([FAILED + words], OURS, "")
    assert found.endswith("in the repositories of Maven's settings")
    assert "--repository URL" in step


def test_what_nobody_knows_is_left_to_mavens_own_words() -> None:
    """They are shown then."""
    assert explained(["[ERROR] the disk is full"], OURS, URL) == ("", "")
