"""Class data sharing (CDS): an archive of the classes that Spark loads at start, parsed and verified only once.

The JVM uses the archive only with the same jars and the same Java that wrote it; its name is a hash of both. Without it
Spark starts more slowly (docs/decisions/0022). `make setup` writes it.
"""

import hashlib
import sys
from pathlib import Path
from urllib.parse import quote

import pyspark

from config.jars import jars
from config.java import find_java
from config.settings import Settings


def class_path(settings: Settings) -> list[Path]:
    """List all jars of Spark: ours, then those of pyspark.

    Spark would add its own after its conf folder, and the JVM archives no jar that follows a folder.
    """
    return [*jars("spark", settings), *sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))]


def cds_archive(settings: Settings) -> Path | None:
    """Return the archive's file for these jars and this Java: in the virtual environment, as it contains its paths.

    None if a path needs URL quoting, like a blank: the JVM stores it quoted, and then matches nothing in the archive.
    """
    java, path = find_java(), class_path(settings)
    if any(quote(str(jar)) != str(jar) for jar in path):
        return None
    inputs = [f"{java.home} {java.version}"]
    for jar in path:
        stat = jar.stat()
        inputs.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "classes" / f"{key}.jsa"


def cds_options(settings: Settings) -> str:
    """Return the JVM options that use the archive; empty if there is none."""
    found = cds_archive(settings)
    # Logging is off: the JVM's warnings about an archive that it rejects would appear in a command's output.
    return f'-XX:SharedArchiveFile="{found}" -Xlog:cds=off -Xlog:cds+dynamic=off' if found and found.exists() else ""
