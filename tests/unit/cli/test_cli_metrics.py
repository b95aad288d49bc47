"""`tarn metrics`."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fake_fleet import FakeFleet

from tarn.cli import run
from tarn.cluster import Cluster
from tarn.cluster.monitoring import DASHBOARDS, Scrape, scrape_config

Tarn = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tarn(fleet: FakeFleet, capsys: pytest.CaptureFixture[str]) -> Tarn:
    """The command line, with a cluster that runs."""
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    Cluster(plain, environment=fleet.environment).up()
    capsys.readouterr()

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments, fleet.environment)
        return code, *capsys.readouterr()

    return call


def test_the_text_is_printed_as_prometheus_gets_it(tarn: Tarn) -> None:
    """Byte for byte, so that it can be piped into promtool."""
    code, out, _ = tarn("metrics", "-c", "demo")
    assert (code, out) == (
        0,
        '# TYPE tarn_asked gauge\ntarn_asked{path="/metrics"} 1\ntarn_odd NaN\n',
    )


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_program_gets_rows(tarn: Tarn, form: str, parse: Callable[[str], object]) -> None:
    """What JSON has no number for is a string, and not something that no parser takes."""
    code, out, _ = tarn("metrics", "-c", "demo", "-o", form)
    assert (code, parse(out)) == (
        0,
        [
            {
                "name": "tarn_asked",
                "type": "gauge",
                "labels": {"path": "/metrics"},
                "value": 1.0,
            },
            {"name": "tarn_odd", "type": "untyped", "labels": {}, "value": "NaN"},
        ],
    )


def test_the_rules_are_printed(tarn: Tarn) -> None:
    """No cluster is needed for them."""
    code, out, _ = tarn("metrics", "rules")
    assert (code, list(yaml.safe_load(out))) == (0, ["groups"])


def test_the_dashboards_are_written(tarn: Tarn, tmp_path: Path) -> None:
    """Both into a folder that is made; one of them may be printed."""
    folder = tmp_path / "new" / "grafana"
    code, out, _ = tarn("metrics", "dashboards", "--output", str(folder))
    assert code == 0
    assert out.split() == [str(folder / name) for name in DASHBOARDS]
    code, out, _ = tarn("metrics", "dashboards", "farm")
    assert (code, out) == (0, (folder / "farm.json").read_text("utf-8"))
    assert sorted(path.name for path in folder.iterdir()) == sorted(DASHBOARDS)


def test_two_dashboards_are_no_text(tarn: Tarn) -> None:
    """Two JSON objects in one stream: the way out is said."""
    code, _, err = tarn("metrics", "dashboards")
    assert code == 2
    assert "--output DIR" in err


def test_a_folder_that_cannot_be_written_is_named(tarn: Tarn, tmp_path: Path) -> None:
    """A file stands there."""
    (tmp_path / "file").write_text("")
    code, _, err = tarn("metrics", "rules", "--output", str(tmp_path / "file"))
    assert code == 2
    assert str(tmp_path / "file") in err
    assert "Traceback" not in err


def test_the_scrape_config_names_the_token_and_never_holds_it(
    tarn: Tarn, fleet: FakeFleet, tmp_path: Path
) -> None:
    """By the file where it is kept, for both jobs."""
    (fleet.directory / "api_token").write_text("canary-4711")
    code, out, _ = tarn("metrics", "scrape-config", "-c", "demo", "--output", str(tmp_path))
    assert (code, out.strip()) == (0, str(tmp_path / "tarn-demo.yaml"))
    text = (tmp_path / "tarn-demo.yaml").read_text("utf-8")
    assert "canary-4711" not in text
    master, tritons = yaml.safe_load(text)["scrape_configs"]
    kept = {"type": "Bearer", "credentials_file": str(fleet.directory / "scrape_token")}
    assert master["authorization"] == kept
    assert tritons["http_sd_configs"][0]["authorization"] == kept
    assert master["static_configs"][0]["labels"] == {"job": "tarn", "cluster": "demo"}


def test_another_token_may_be_named(tarn: Tarn) -> None:
    """Where Prometheus runs its file is elsewhere, and the token perhaps of less power."""
    arguments = ("-c", "demo", "--credentials-file", "/etc/prometheus/tarn.token")
    code, out, _ = tarn("metrics", "scrape-config", *arguments)
    assert code == 0
    for job in yaml.safe_load(out)["scrape_configs"]:
        holder = job.get("http_sd_configs", [job])[0]
        assert holder["authorization"]["credentials_file"] == "/etc/prometheus/tarn.token"


def test_without_a_token_none_is_named(tarn: Tarn, fleet: FakeFleet) -> None:
    """A file that is not there would end Prometheus' scrapes."""
    (fleet.directory / "api_token").unlink()
    code, out, _ = tarn("metrics", "scrape-config", "-c", "demo")
    assert code == 0
    assert "authorization" not in out


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_a_whole_configuration_is_taken_by_an_older_prometheus(tarn: Tarn, tmp_path: Path) -> None:
    """Debian 12 has 2.42, which does not know `scrape_config_files`."""
    code, out, _ = tarn(
        "metrics", "scrape-config", "-c", "demo", "--whole", "--output", str(tmp_path)
    )
    assert code == 0
    names = [Path(line).name for line in out.split()]
    assert names == ["prometheus.yml", "tarn-alerts.yaml"]
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


@pytest.mark.parametrize("flag", ["--whole", "--follow"])
def test_what_writes_several_files_wants_a_folder(tarn: Tarn, flag: str) -> None:
    code, _, err = tarn("metrics", "scrape-config", "-c", "demo", flag)
    assert code == 2
    assert f"{flag} writes files" in err


def test_a_cluster_named_before_the_verb_is_not_lost(tarn: Tarn) -> None:
    """It would be another cluster's configuration else."""
    code, _, err = tarn("metrics", "-c", "demo", "scrape-config")
    assert code == 2
    assert "-c NAME comes after" in err


def test_https_below_a_path_is_scraped_there(tmp_path: Path) -> None:
    """A proxy shows a master below a path; who signed its certificate is named for both jobs."""
    scrape = Scrape("ocr", "https://rm:8090/proxy/app_1", None, tmp_path / "ca.pem")
    master, tritons = scrape_config(scrape)["scrape_configs"]
    assert (master["scheme"], master["metrics_path"]) == ("https", "/proxy/app_1/metrics")
    assert master["static_configs"][0]["targets"] == ["rm:8090"]
    assert master["tls_config"] == {"ca_file": str(tmp_path / "ca.pem")}
    assert tritons["http_sd_configs"][0]["tls_config"] == master["tls_config"]
    assert tritons["http_sd_configs"][0]["url"] == "https://rm:8090/proxy/app_1/api/v1/sd"
