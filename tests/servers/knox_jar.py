"""Knox's own jars from Maven, and the jar of our URLManager, built against them.

``PYTHONPATH=tests python -m servers.knox_jar TARGET`` builds the jar; ``nox -s knox_jar`` does that
for the wheel.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from servers.maven import jars

SOURCES = Path(__file__).parents[2] / "src/tarn_plugins/discovery/knox/java"
SERVICE = "META-INF/services/org.apache.knox.gateway.ha.provider.URLManager"
MANAGER = "tarn.knox.InstancesURLManager"
KNOX = "2.0.0"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The same bytes from the same sources, whenever they are built."""
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tarn</groupId><artifactId>knox</artifactId><version>1</version><packaging>pom</packaging>
  <!-- Without Knox's own versions an old curator-recipes comes with a new curator-framework. -->
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.knox</groupId><artifactId>gateway</artifactId><version>{KNOX}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.knox</groupId><artifactId>gateway-release</artifactId>
    <version>{KNOX}</version><type>pom</type>
    <!-- What Maven cannot bring; nothing here needs it. -->
    <exclusions>
      <exclusion><groupId>org.jetbrains.pty4j</groupId><artifactId>*</artifactId></exclusion>
      <exclusion><groupId>org.apache.knox</groupId>
        <artifactId>gateway-provider-security-pac4j</artifactId></exclusion>
      <exclusion><groupId>org.apache.knox</groupId>
        <artifactId>gateway-discovery-cm</artifactId></exclusion>
      <exclusion><groupId>com.cloudera.api.swagger</groupId><artifactId>*</artifactId></exclusion>
    </exclusions>
  </dependency></dependencies>
</project>
"""


def library() -> Path:
    """Return the folder with Knox's jars; Maven brings them once, into the cache."""
    return jars(f"knox-{KNOX}", POM)


def build(target: Path) -> Path:
    """Compile our classes for Java 8, which Knox 2.0.0 still runs on, and pack them."""
    with tempfile.TemporaryDirectory() as made:
        jars = [str(jar) for jar in sorted(library().glob("*.jar"))]
        subprocess.run(
            [
                *("javac", "--release", "8", "-proc:none", "-Werror"),
                "-Xlint:all,-options,-classfile,-path",
                *("-cp", ":".join(jars), "-d", made),
                *map(str, sorted(SOURCES.rglob("*.java"))),
            ],
            check=True,
            timeout=120,
        )
        classes = sorted(Path(made).rglob("*.class"))
        content = {str(one.relative_to(made)): one.read_bytes() for one in classes}
    content[SERVICE] = f"{MANAGER}\n".encode()
    part = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(content):
            jar.writestr(zipfile.ZipInfo(name, LONG_AGO), content[name], zipfile.ZIP_DEFLATED)
    shutil.move(part, target)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
