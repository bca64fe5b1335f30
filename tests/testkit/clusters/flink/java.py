"""Finding a JDK, and how to start a JVM for Flink."""

import os
import shutil
from pathlib import Path

from testkit.clusters.flink.errors import HarnessError

# ``env.java.opts.all`` of the configuration that Flink 2.x ships for Java 17.
_EXPORTS = (
    "java.base/sun.net.util",
    "java.rmi/sun.rmi.registry",
    "java.security.jgss/sun.security.krb5",
    *(f"jdk.compiler/com.sun.tools.javac.{part}" for part in ("api", "file", "parser", "tree", "util")),
)
_OPENS = (
    *(f"java.base/java.{part}" for part in ("lang", "net", "io", "nio", "text", "time", "util")),
    *(f"java.base/java.util.concurrent{part}" for part in ("", ".atomic", ".locks")),
    "java.base/java.lang.reflect",
    "java.base/sun.nio.ch",
)
MODULE_OPTIONS = (
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
)

# Small and quick to start: many JVMs share a developer's machine. They do not live long enough to earn back
# what the second compiler costs.
SLIM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=96m", "-XX:-UsePerfData")

LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
appender.file.name = file
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} - %m%n
logger.pekko.name = org.apache.pekko
logger.pekko.level = WARN
"""


def tool(name: str) -> Path:
    """Return the path of ``java``, ``javac`` or ``jar`` from ``JAVA_HOME`` or ``PATH``.

    Raises:
        HarnessError: There is none; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else None
    found = found or shutil.which(name)
    if found is None:
        raise HarnessError(f"no {name!r} in JAVA_HOME or PATH: install a JDK 17 (a JRE has no compiler)")
    return Path(found)


def write_logging(directory: Path) -> Path:
    """Write ``log4j2.properties``, which sends each process to its own ``log.file``; return its path."""
    path = directory / "log4j2.properties"
    path.write_text(LOGGING)
    return path
