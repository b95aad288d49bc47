"""The authorizer `ranger` with Ranger's own engine, against a server of policies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from house import until
from servers.ranger import (
    EVERYBODY,
    POLICIES,
    SERVICE,
    PolicyServer,
    item,
    library,
    options,
    policy,
)

from tarn.domain import ANONYMOUS, Principal, Readiness
from tarn.http.blocking_pool import AuthorizerPool
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer
from tarn_plugins.authorizer.ranger.setup_file import service_definition

ALICE = Principal("alice", frozenset({"users"}), "spnego")
OPS = Principal("ops", frozenset({"ml-admins"}), "spnego")
DECISIONS = 2_000
LOG = "home/clusters/fleet/logs/ranger-audit.log"
Open = Callable[..., RangerAuthorizer]


def test_actions_are_decided_by_their_own_policies(shared: RangerAuthorizer) -> None:
    """Models by the resource `model`, the fleet by its cluster's name."""
    assert shared.ready() == Readiness(ready=True)
    verdict = shared.check(ALICE, "infer", "ocr-2")
    assert verdict.allowed
    assert verdict.reason == f"Ranger policy 1 of the service '{SERVICE}' allows it"
    assert not shared.check(ALICE, "infer", "llama").allowed
    assert shared.check(ALICE, "list", "llama").allowed
    assert shared.check(ANONYMOUS, "list", "llama").allowed
    assert not shared.check(ALICE, "view", "").allowed
    assert shared.check(OPS, "view", "").allowed, "admin implies it"
    assert shared.check(OPS, "admin", "").allowed


@pytest.mark.parametrize("via", ["token", "trusted-proxy"])
def test_who_proved_no_name_has_none(shared: RangerAuthorizer, via: str) -> None:
    """The api token's holder is not the user whom a policy calls by the same word."""
    assert not shared.check(Principal("alice", via=via), "infer", "ocr").allowed
    assert not shared.check(Principal("ops", frozenset({"ml-admins"}), via), "admin", "").allowed
    assert shared.check(Principal("alice", via=via), "list", "llama").allowed, "anybody may"


@pytest.mark.parametrize("name", ["*", "?cr", "", "{USER}", "ocr\0", "\ud800", "o" * 100_000])
def test_names_from_outside_are_names_only(shared: RangerAuthorizer, name: str) -> None:
    """A pattern, half a character, a very long name: none matches more than itself."""
    assert not shared.check(OPS, "infer", name).allowed
    assert not shared.check(Principal(name, frozenset({name}), "spnego"), "infer", "ocr").allowed


def test_a_thousand_requests_leave_no_thread_behind(shared: RangerAuthorizer) -> None:
    """Each Python thread that ever called Java stays one of Java's: so few call it."""

    async def ask(gate: AuthorizerPool) -> int:
        allowed = 0
        for _ in range(100):
            asked = (gate.allow_each(ALICE, "infer", ("ocr",)) for _ in range(10))
            allowed += sum(one.allowed for (one,) in await asyncio.gather(*asked))
        return allowed

    gate = AuthorizerPool(
        shared, deadline_s=30.0
    )  # a late answer is a no, and not what is asked here
    assert asyncio.run(ask(gate)) == 1000
    before = _threads()
    assert asyncio.run(ask(gate)) == 1000
    # The JVM starts some threads of its own; one for each request would be a thousand.
    assert _threads() <= before + 20
    gate.close()


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_without_ranger_admin_and_cache_nobody_may_anything(own: Open) -> None:
    """Not ready, with the reason; once it answers, decisions follow."""
    with PolicyServer([policy(1, ["*"], [item(["infer"], groups=[EVERYBODY])])]) as stage:
        stage.stop()
        authorizer = own(stage.url)
        verdict = authorizer.check(ALICE, "infer", "ocr")
        assert not verdict.allowed
        assert "has no policies" in verdict.reason
        assert "Connection refused" in verdict.reason
        readiness = authorizer.ready()
        assert not readiness.ready
        assert "Connection refused" in readiness.reason
        stage.start()
        until(lambda: authorizer.check(ALICE, "infer", "ocr").allowed, 20, "the policies")
        until(lambda: authorizer.ready() == Readiness(ready=True), 10, "being ready")


def test_a_service_that_ranger_admin_lacks_denies(own: Open) -> None:
    """It answers 404: there is nothing to decide by, and no cache is believed."""
    with PolicyServer(POLICIES) as stage:
        authorizer = own(stage.url, service="another")
        assert not authorizer.ready().ready
        assert "has no such service" in authorizer.ready().reason
        assert not authorizer.check(ALICE, "infer", "ocr").allowed


def test_what_is_taken_away_in_ranger_admin_is_gone_with_the_next_poll(own: Open) -> None:
    """A policy; and the whole service: Ranger's engine itself would go on with what it had."""
    with PolicyServer(POLICIES) as stage:
        authorizer = own(stage.url)
        assert authorizer.check(ALICE, "infer", "ocr").allowed
        stage.change(POLICIES[1:])
        until(lambda: not authorizer.check(ALICE, "infer", "ocr").allowed, 10, "the change")
        stage.change(POLICIES)
        until(lambda: authorizer.check(ALICE, "infer", "ocr").allowed, 10, "the change back")
        stage.service = "another"
        until(lambda: not authorizer.check(ALICE, "infer", "ocr").allowed, 10, "the removal")
        assert "has no such service" in authorizer.ready().reason
        assert not authorizer.ready().ready


def test_refusals_of_ranger_admin_make_decisions_stale(own: Open) -> None:
    """It goes on with what it has, and says how old that is; then it is as before."""
    with PolicyServer(POLICIES) as stage:
        authorizer = own(stage.url)
        for status in (401, 403, 404, 500):
            stage.status = status
            until(lambda: authorizer.check(ALICE, "infer", "ocr").stale, 10, "being stale")
            verdict = authorizer.check(ALICE, "infer", "ocr")
            assert verdict.allowed
            assert f"Ranger Admin answered HTTP {status}" in verdict.reason
            readiness = authorizer.ready()
            assert readiness.ready
            assert readiness.reason.startswith("stale: policies of ")
            stage.status = 0
            until(lambda: not authorizer.check(ALICE, "infer", "ocr").stale, 10, "being fresh")


def test_the_cache_decides_while_ranger_admin_is_away(own: Open, tmp_path: Path) -> None:
    """The next master of a cluster finds the policies of the last one; a broken file is none."""
    with PolicyServer(POLICIES) as stage:
        own(stage.url).close()
        stage.stop()
        kept = tmp_path / "home/clusters/fleet/ranger"
        cache, confirmed = kept / "cache" / f"tarn_{SERVICE}.json", kept / "confirmed"
        long_ago = confirmed.stat().st_mtime - 3 * 3600
        os.utime(confirmed, (long_ago, long_ago))
        authorizer = own(stage.url)
        verdict = authorizer.check(ALICE, "infer", "ocr")
        assert verdict.allowed
        assert verdict.stale
        assert "policies of 3 h ago: Ranger Admin cannot be reached" in verdict.reason
        assert not authorizer.check(ALICE, "infer", "llama").allowed
        assert authorizer.ready().ready
        authorizer.close()
        cache.write_text("{")
        authorizer = own(stage.url)
        assert not authorizer.check(ALICE, "infer", "ocr").allowed
        assert not authorizer.ready().ready


def test_a_definition_without_clusters_opens_no_fleet(own: Open) -> None:
    """That of the Java TARN knows models only: a policy for all of them is one for no fleet."""
    old = {
        **service_definition(),
        "resources": service_definition()["resources"][:1],
        "accessTypes": service_definition()["accessTypes"][:3],
    }
    everything = [policy(1, ["*"], [item(["infer", "metadata", "list"], groups=[EVERYBODY])])]
    with PolicyServer(everything) as stage:
        whole = stage.download
        stage.download = lambda: {**whole(), "serviceDef": {**whole()["serviceDef"], **old}}
        authorizer = own(stage.url)
        assert authorizer.check(ALICE, "infer", "ocr").allowed
        for action in ("view", "follow", "authorize", "admin"):
            assert not authorizer.check(ALICE, action, "").allowed


def test_configuration_and_cache_are_nobody_elses(own: Open, tmp_path: Path) -> None:
    """The site's file may hold a password, and the cache says who may what."""
    with PolicyServer(POLICIES) as stage:
        own(stage.url)
    ranger = tmp_path / "home/clusters/fleet/ranger"
    for folder in (ranger, ranger / "conf", ranger / "cache"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (ranger / "conf").iterdir()} == {0o600}


def test_audits_equal_decisions_after_a_master_was_told_to_leave(
    stage: PolicyServer, tmp_path: Path
) -> None:
    """SIGTERM in the midst of it: each answer that was given stands in the log, once."""
    options(tmp_path / "site", stage.url)
    program = [sys.executable, str(Path(__file__).with_name("asks_until_told.py"))]
    process = subprocess.Popen(
        [*program, str(tmp_path), stage.url, str(DECISIONS)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "enough\n"
    process.send_signal(signal.SIGTERM)
    said = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    assert said["asked"] >= DECISIONS
    assert said["closed_in_s"] < 3.0
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert len(lines) == said["asked"]
    assert sum(line["result"] for line in lines) == said["allowed"]
    assert {line["agent"] for line in lines} == {"tarn"}


def test_jars_with_which_audits_would_vanish_are_refused(own: Open) -> None:
    """slf4j without the part that writes: Ranger itself would go on, and audit nothing."""
    jars = [str(jar) for jar in library().glob("*.jar") if "slf4j-reload4j" not in jar.name]
    with PolicyServer(POLICIES) as stage:
        authorizer = own(stage.url, jars=jars)
        assert not authorizer.check(ALICE, "infer", "ocr").allowed
        assert "every audit record would be lost" in authorizer.ready().reason


def test_without_audit_nothing_is_written(own: Open, tmp_path: Path) -> None:
    """`audit: false` needs no file of the site, and leaves none."""
    with PolicyServer(POLICIES) as stage:
        (tmp_path / "site").mkdir()
        authorizer = own(stage.url, audit=False)
        assert authorizer.check(ALICE, "infer", "ocr").allowed
        authorizer.close()
        log = tmp_path / LOG
        assert not log.exists() or not log.read_text()
