"""Classes: an archive of those that Spark loads whenever it starts, read and verified once for all later starts.

The JVM takes the archive only with the very jars and the very Java it was made with; its name tells these. Where it is
missing, Spark starts without it, and takes longer (docs/decisions/0022). `make setup` makes it.
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
    """List all jars of Spark: ours, then its own.

    Spark would add its own, but behind its folder of settings; and behind a folder the JVM archives nothing.
    """
    return [*jars("spark", settings), *sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))]


def cds_archive(settings: Settings) -> Path | None:
    """Say where the archive for these jars and this Java is: beside the packages, as it holds their paths.

    None where a path has a blank or the like in it: the JVM writes it otherwise then, and finds nothing in the archive.
    """
    java, path = find_java(), class_path(settings)
    if any(quote(str(jar)) != str(jar) for jar in path):
        return None
    told = [f"{java.home} {java.version}"]
    for jar in path:
        about = jar.stat()
        told.append(f"{jar} {about.st_size} {about.st_mtime_ns}")
    key = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "classes" / f"{key}.jsa"


def cds_options(settings: Settings) -> str:
    """Give the options of a JVM that takes the archive; none where there is none."""
    found = cds_archive(settings)
    # What the JVM has to say of an archive that it does not take would stand in the middle of a command's own words.
    return f'-XX:SharedArchiveFile="{found}" -Xlog:cds=off -Xlog:cds+dynamic=off' if found and found.exists() else ""
