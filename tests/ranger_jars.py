"""The jars of Ranger's engine, brought by Maven once, into the cache."""

import subprocess
import tempfile
from pathlib import Path

from one_maven import one_maven

from tarn import config

RANGER = "2.9.0"
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tarn</groupId><artifactId>ranger</artifactId><version>1</version>
  <packaging>pom</packaging>
  <!-- Ranger's audits go through slf4j 1: with 2, which another jar asks for, they vanish. -->
  <dependencyManagement><dependencies><dependency>
    <groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>1.7.36</version>
  </dependency></dependencies></dependencyManagement>
  <dependencies>
    <dependency><groupId>org.apache.ranger</groupId>
      <artifactId>ranger-plugins-common</artifactId><version>{RANGER}</version></dependency>
    <dependency><groupId>org.apache.ranger</groupId>
      <artifactId>ranger-audit-dest-log4j</artifactId><version>{RANGER}</version></dependency>
  </dependencies>
</project>
"""


def library() -> Path:
    """Return the folder with the jars."""
    target = config.paths(config.environ()).cache / f"ranger-{RANGER}"
    with one_maven():
        if not target.is_dir():
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    # Beside the target, so that it arrives by a rename: whole, or not at all.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as made:
        (Path(made) / "pom.xml").write_text(POM)
        subprocess.run(
            [
                *("mvn", "--batch-mode", "-q", "-f", f"{made}/pom.xml"),
                *("dependency:copy-dependencies", "-DincludeScope=runtime"),
                f"-DoutputDirectory={made}/jars",
            ],
            check=True,
            timeout=900,
        )
        (Path(made) / "jars").rename(target)
