"""Peers that are newer than a distribution's: programs, libraries and modules in wheels of the Python package index."""

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


def pip(action, requirement, *options):
    """A sentence where that fails."""
    done = subprocess.run([sys.executable, "-m", "pip", action, "--quiet", "--disable-pip-version-check",
                           "--only-binary=:all:", *options, requirement],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = done.stderr.strip().splitlines() or ["no message"]
    return "pip %s %s: %s" % (action, requirement, errors[-1]) if done.returncode != 0 else ""


def install(name, requirement):
    """Modules and all they need, for who has the peer's folder in PYTHONPATH; a sentence where that fails."""
    return pip("install", requirement, "--no-cache-dir", "--upgrade", "--target", path(name))


def fetch(name, requirement, part=""):
    """Unpacks what the wheel installs beside modules, under names that begin so; a sentence where that fails. Not
    installed: distributions forbid pip that, and what wheels say that they need is not always to be had."""
    with tempfile.TemporaryDirectory() as folder:
        why = pip("download", requirement, "--no-deps", "--dest", folder)
        wheels = [file for file in os.listdir(folder) if file.endswith(".whl")]
        if why or not wheels:
            return why or "pip download %s: no wheel" % requirement
        with zipfile.ZipFile(os.path.join(folder, wheels[0])) as wheel:
            for member in wheel.infolist():
                where = member.filename.partition(DATA)[2]
                if not where or not where.startswith(part) or member.is_dir() or ".." in where.split("/"):
                    continue
                file = path(name, where)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "wb") as out:
                    out.write(wheel.read(member))
                os.chmod(file, (member.external_attr >> 16 & 0o777) | 0o600)
    return ""
