"""45: the Java TARN took ``{a,b}``, ``..`` and ``~`` for a path, and refused ``s3://``."""

import attrs
import pytest

from tarn.domain.spec import ModelsSpec
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.client.checks import container_findings
from tarn_plugins.runtime.yarn.survey import YarnOverview

TAKEN = [
    "hdfs:///models", "hdfs://nn:8020/models", "viewfs://c/models", "webhdfs://nn/models",
    "s3a://bucket/models", "s3://bucket/models", "abfs://c@account.dfs.core.windows.net/models",
    "abfss://c@account.dfs.core.windows.net/models", "o3fs://b.v/models", "ofs://om/v/b/models",
    "gs://bucket/models", "/mnt/models", "/mnt/models/v1.2_a-b+c@d=e", "/m",
]  # fmt: skip
REFUSED = [
    "/mnt/{a,b}", "/mnt/../etc", "~/models", "/mnt/a b", "/mnt/a;b", "/mnt/$HOME", "/mnt/a:b",
    "/mnt/`id`", "models", "/mnt/a,b", "/mnt/*", "",
]  # fmt: skip


@pytest.mark.parametrize("path", TAKEN + REFUSED)
def test_a_repository_is_taken_or_refused_before_anything_starts(path: str) -> None:
    """What could be read in two ways is none; every file system that Hadoop knows is one."""
    spec = attrs.evolve(cluster_spec(), models=ModelsSpec(path))
    found = [each for each in container_findings(spec, Docker(), YarnOverview()) if each.fatal]
    assert bool(found) == (path in REFUSED)
    assert all(each.where == "models.repository" for each in found)
