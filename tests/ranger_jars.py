"""The jars of Ranger's engine, brought by Maven once, into the cache."""

from pathlib import Path

from one_maven import jars

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
    return jars(f"ranger-{RANGER}", POM)
