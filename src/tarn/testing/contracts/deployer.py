"""The contracts of a deployer and of an uploader."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tarn import config
from tarn.domain import ClusterSpec
from tarn.errors import LaunchError, NotFoundError, ProviderError, RefusedError
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import ClusterRef, Deployer, Finding, LaunchPlan, Staged
from tarn.interfaces.protocols import Uploader
from tarn.plain import master_files
from tarn.testing.context import client_context, cluster_spec
from tarn.testing.wait import until, within

__all__ = ["DeployerContract", "UploaderContract"]


class DeployerContract:
    """Set `factory` and `settings`; override `spec` and `doomed_spec` for real masters."""

    factory: RuntimeFactory
    settings: Mapping[str, Any] = {}
    within_s: float = 60.0
    """Seconds in which a master must start, and end."""

    def make(self, tmp_path: Path) -> Deployer:
        """Return a new deployer, made by its factory; all share one machine."""
        made = self.factory.settings(**self.settings)
        return self.factory.deployer(made, client_context(tmp_path))

    def spec(self, tmp_path: Path) -> ClusterSpec:
        """Return a spec whose master starts."""
        return cluster_spec(repository=str(tmp_path))

    def doomed_spec(self, tmp_path: Path) -> ClusterSpec:
        """Return a spec of another name, whose master fails to start."""
        return attrs.evolve(self.spec(tmp_path), name="doomed")

    def staged(self, tmp_path: Path) -> Staged:
        """Return where the models of `spec` are."""
        return Staged(str(tmp_path), "in_place")

    def files(self, tmp_path: Path, spec: ClusterSpec) -> Mapping[str, bytes]:
        """Return the files that a client passes with *spec* to a master."""
        return {
            master_files.SPEC: yaml.safe_dump(config.dump(spec)).encode(),
            master_files.STAGED: json.dumps(attrs.asdict(self.staged(tmp_path))).encode(),
            master_files.API_TOKEN: b"0123456789abcdef",
            master_files.TRITON_SECRET: b"0123456789abcdef0123456789abcdef",
        }

    def test_checking_changes_nothing(self, tmp_path: Path) -> None:
        """Findings have a text and a code; nothing runs afterwards."""
        deployer, spec = self.make(tmp_path), self.spec(tmp_path)
        findings = deployer.check(spec)
        assert isinstance(findings, tuple)
        for finding in findings:
            assert isinstance(finding, Finding)
            assert finding.found.strip()
            assert finding.code.startswith("TARN-")
        assert deployer.check(spec) == findings
        assert deployer.find(spec.name) is None

    def test_planning_changes_nothing(self, tmp_path: Path) -> None:
        """Nothing runs, and no file is written but in a cache; a second plan is equal."""
        deployer, spec = self.make(tmp_path), self.spec(tmp_path)
        before = _files(tmp_path)
        plan = deployer.plan(spec, self.staged(tmp_path))
        assert deployer.plan(spec, self.staged(tmp_path)) == plan
        assert deployer.find(spec.name) is None
        assert _files(tmp_path) == before

    def test_a_plan_has_the_models_the_environment_and_the_places(self, tmp_path: Path) -> None:
        """It names the staged models, and has ``triton.env`` byte for byte."""
        odd = {"A": "b c $(id)", "B": "'\"\\\n", "C": "été 模型"}
        spec = self.spec(tmp_path)
        spec = attrs.evolve(spec, triton=attrs.evolve(spec.triton, env=odd))
        plan = self.make(tmp_path).plan(spec, self.staged(tmp_path))
        assert isinstance(plan, LaunchPlan)
        assert len(plan.commands) == spec.instance.parallelism.ranks
        location = self.staged(tmp_path).location
        assert location in plan.files.values()
        # an image may have the models at another path, which the command then names
        assert all(any("--model-repository" in word for word in words) for words in plan.commands)
        assert {name: plan.environ.get(name) for name in odd} == odd
        assert plan.files
        assert all(what.strip() and where.strip() for what, where in plan.files.items())

    def test_a_plan_for_what_cannot_start_is_no_error(self, tmp_path: Path) -> None:
        """A plan needs no working machine; `check` reports what is missing."""
        spec = self.doomed_spec(tmp_path)
        binary = attrs.evolve(spec.triton, binary="/nowhere/tritonserver")
        plan = self.make(tmp_path).plan(attrs.evolve(spec, triton=binary), self.staged(tmp_path))
        assert plan.commands[0]

    def test_finds_nothing_where_nothing_runs(self, tmp_path: Path) -> None:
        """An unknown name is None, not an error."""
        assert self.make(tmp_path).find("never-started") is None

    def test_what_was_submitted_is_found(self, tmp_path: Path) -> None:
        """Another client process finds it, too, with the same epoch."""
        ref = self._submit(tmp_path)
        try:
            assert ref.name == self.spec(tmp_path).name
            assert ref.runtime
            found = self.make(tmp_path).find(ref.name)
            assert found is not None
            assert (found.name, found.runtime, found.epoch) == (ref.name, ref.runtime, ref.epoch)
            assert self.make(tmp_path).find("never-started") is None
        finally:
            self._end(tmp_path, ref)

    def test_a_second_of_the_same_name_is_refused(self, tmp_path: Path) -> None:
        """`RefusedError` is raised, and the first cluster continues."""
        ref = self._submit(tmp_path)
        try:
            with pytest.raises(RefusedError):
                self._submit(tmp_path)
            found = self.make(tmp_path).find(ref.name)
            assert found is not None
            assert found.epoch == ref.epoch
        finally:
            self._end(tmp_path, ref)

    def test_of_two_at_once_one_wins(self, tmp_path: Path) -> None:
        """The other is refused; there is one cluster."""

        def submit(_number: int) -> ClusterRef | None:
            try:
                return self._submit(tmp_path)
            except RefusedError:
                return None

        with ThreadPoolExecutor(2) as pool:
            refs = [ref for ref in pool.map(submit, range(2)) if ref is not None]
        for ref in refs:
            self._end(tmp_path, ref)
        assert len(refs) == 1

    def test_ending_ends_it_and_twice_is_once(self, tmp_path: Path) -> None:
        """Nothing is found afterwards, and ending it again is not an error."""
        ref = self._submit(tmp_path)
        for _ in range(2):
            self._end(tmp_path, ref)
        assert self.make(tmp_path).find(ref.name) is None

    def test_an_end_is_remembered_or_not(self, tmp_path: Path) -> None:
        """A remembered end has a state, a time, and the logs; an unknown name has no end."""
        assert self.make(tmp_path).ended("never-started") is None
        ref = self._submit(tmp_path)
        until(lambda: self._log(tmp_path, ref, None), self.within_s, "a line in the log")
        self._end(tmp_path, ref)
        ending = self.make(tmp_path).ended(ref.name)
        if ending is not None:
            assert ending.name == ending.ref.name == ref.name
            assert ending.state in ("stopped", "failed")
            assert ending.at > 0
            assert ending.ref.epoch == ref.epoch
            assert self._log(tmp_path, ending.ref, None)

    def test_a_later_cluster_has_a_higher_epoch(self, tmp_path: Path) -> None:
        """Followers of the old cluster accept the new one; the old ref cannot end it."""
        old = self._submit(tmp_path)
        self._end(tmp_path, old)
        new = self._submit(tmp_path)
        try:
            assert new.epoch > old.epoch
            within(self.within_s, lambda: self.make(tmp_path).end(old), "end")
            found = self.make(tmp_path).find(new.name)
            assert found is not None
            assert found.epoch == new.epoch
        finally:
            self._end(tmp_path, new)

    def test_a_master_that_does_not_come_up_leaves_nothing(self, tmp_path: Path) -> None:
        """`LaunchError` gives the reason, and the name is free again."""
        deployer, spec = self.make(tmp_path), self.doomed_spec(tmp_path)
        files = self.files(tmp_path, spec)
        for _ in range(2):
            with pytest.raises(LaunchError) as caught:
                deployer.submit(spec, self.staged(tmp_path), files)
            assert caught.value.found.strip()
            assert deployer.find(spec.name) is None

    def test_shows_the_masters_log(self, tmp_path: Path) -> None:
        """The lines have no newlines; a tail is the last of them."""
        ref = self._submit(tmp_path)
        try:
            until(lambda: self._log(tmp_path, ref, None), self.within_s, "a line in the log")
            whole, last = self._log(tmp_path, ref, None), self._log(tmp_path, ref, 1)
            assert len(last) == 1
            assert all(not line.endswith("\n") for line in whole)
            assert last[0] in self._log(tmp_path, ref, None)
            assert self._log(tmp_path, ref, 0) == []
        finally:
            self._end(tmp_path, ref)

    def test_names_the_instances_that_have_a_log(self, tmp_path: Path) -> None:
        """The ids are sorted and unique, without the master; each of the logs can be read."""
        ref = self._submit(tmp_path)
        try:
            deployer = self.make(tmp_path)
            named = deployer.logged(ref)
            assert isinstance(named, tuple)
            assert sorted({name for name in named if name}) == list(named)
            for name in named:
                list(deployer.logs(ref, name, 1))
            with pytest.raises(NotFoundError):
                list(deployer.logs(ref, "never-started", 1))
        finally:
            self._end(tmp_path, ref)

    def _submit(self, tmp_path: Path) -> ClusterRef:
        deployer = self.make(tmp_path)
        spec, staged = self.spec(tmp_path), self.staged(tmp_path)
        files = self.files(tmp_path, spec)
        ref = within(self.within_s, lambda: deployer.submit(spec, staged, files), "submit")
        assert isinstance(ref, ClusterRef)
        return ref

    def _end(self, tmp_path: Path, ref: ClusterRef) -> None:
        deployer = self.make(tmp_path)
        within(self.within_s, lambda: deployer.end(ref), "end")
        until(lambda: deployer.find(ref.name) is None, self.within_s, f"the end of {ref.name}")

    def _log(self, tmp_path: Path, ref: ClusterRef, tail: int | None) -> list[str]:
        return list(self.make(tmp_path).logs(ref, "", tail))


_CONTENT = bytes(range(256)) * 300


class UploaderContract:
    """Override `make`, `uri` and `content`."""

    nowhere = "no-such-scheme://host/file.tar.gz"
    """A URI at which nothing can be written."""

    def make(self, tmp_path: Path) -> Uploader:
        """Return the uploader under test."""
        raise NotImplementedError

    def uri(self, carrier: Uploader) -> str:
        """Return the URI of a new file."""
        raise NotImplementedError

    def content(self, carrier: Uploader, uri: str) -> bytes:
        """Return the content at *uri*, as `Uploader.put` named it."""
        raise NotImplementedError

    def test_is_a_carrier(self, tmp_path: Path) -> None:
        """It has the method of the Protocol."""
        assert isinstance(self.make(tmp_path), Uploader)

    def test_a_file_arrives_whole(self, tmp_path: Path) -> None:
        """Every byte arrives, and the answer says that the file is new."""
        carrier = self.make(tmp_path)
        where, there = carrier.put(_file(tmp_path, _CONTENT), self.uri(carrier))
        assert there is False
        assert self.content(carrier, where) == _CONTENT

    def test_it_is_not_brought_twice(self, tmp_path: Path) -> None:
        """The second upload finds the file under the URI of the first."""
        carrier, local = self.make(tmp_path), _file(tmp_path, _CONTENT)
        where, _ = carrier.put(local, self.uri(carrier))
        assert carrier.put(local, where) == (where, True)
        assert self.content(carrier, where) == _CONTENT

    def test_another_file_is_never_replaced(self, tmp_path: Path) -> None:
        """A file of another size is refused, and the first one stays."""
        carrier = self.make(tmp_path)
        where, _ = carrier.put(_file(tmp_path, _CONTENT), self.uri(carrier))
        with pytest.raises(RefusedError) as caught:
            carrier.put(_file(tmp_path, b"another"), where)
        assert where in str(caught.value)
        assert self.content(carrier, where) == _CONTENT

    def test_a_place_that_is_none_is_an_error_of_the_provider(self, tmp_path: Path) -> None:
        """The error names the URI."""
        carrier = self.make(tmp_path)
        with pytest.raises(ProviderError) as caught:
            carrier.put(_file(tmp_path, _CONTENT), self.nowhere)
        assert "no-such-scheme" in str(caught.value)


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "local.tar.gz"
    path.write_bytes(content)
    return path


def _files(folder: Path) -> list[Path]:
    """Return what is below *folder*, without what a cache holds."""
    return sorted(path for path in folder.rglob("*") if "cache" not in path.parent.parts)
