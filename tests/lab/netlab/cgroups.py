"""A slow CPU: a control group for each host that has one, of version 1 or 2, whichever holds the cpu controller."""

import contextlib
import os

from .errors import LabError

PERIOD = 100000  # microseconds


def _mounts():
    with open("/proc/self/mounts") as file:
        for line in file:
            _, path, kind, options = line.split()[:4]
            yield path, kind, options.split(",")


def _root():
    """(folder, version) of the cpu controller; None if there is none."""
    for path, kind, options in _mounts():
        if kind == "cgroup" and "cpu" in options and os.path.exists(path + "/cpu.cfs_quota_us"):
            return path, 1
        if kind == "cgroup2":
            with open(path + "/cgroup.controllers") as file:
                if "cpu" in file.read().split():
                    return path, 2
    return None


def _write(path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
    except ProcessLookupError:  # it ended meanwhile
        pass
    except OSError as error:
        raise LabError("%s takes no %r: %s; a slow CPU needs control groups that may be written" % (path, text, error.strerror)) from None


def _folder(root, name, host):
    return os.path.join(root, "eccl-lab-%s-%d" % (name, host))


def members(name, host):
    """The file that a process of that host has to be written into, if the host has a slow CPU; else None."""
    root = _root()
    path = root and os.path.join(_folder(root[0], name, host), "cgroup.procs")
    return path if path and os.path.exists(path) else None


def slow(name, host, percent, pids):
    """All processes of that host together get so many percent of one core."""
    root = _root()
    if root is None:
        raise LabError("a slow CPU needs control groups with the cpu controller, version 1 or 2; none is mounted here")
    folder, version = _folder(root[0], name, host), root[1]
    if version == 2:
        _write(os.path.join(root[0], "cgroup.subtree_control"), "+cpu")
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    quota = str(round(PERIOD * percent / 100))
    if version == 1:
        _write(os.path.join(folder, "cpu.cfs_period_us"), str(PERIOD))
        _write(os.path.join(folder, "cpu.cfs_quota_us"), quota)
    else:
        _write(os.path.join(folder, "cpu.max"), "%s %d" % (quota, PERIOD))
    for pid in pids:
        _write(os.path.join(folder, "cgroup.procs"), str(pid))


def free(name, host):
    root = _root()
    if root is not None:
        _remove(root[0], _folder(root[0], name, host))


def remove(name):
    """The control groups of all hosts of a lab."""
    root = _root()
    start = os.path.basename(_folder("", name, 0))[:-1]
    for entry in os.listdir(root[0]) if root else ():
        if entry.startswith(start) and entry[len(start):].isdigit():
            _remove(root[0], os.path.join(root[0], entry))


def _remove(root, folder):
    """Whoever is still in it goes to the root of all groups."""
    with contextlib.suppress(FileNotFoundError):
        while True:
            with open(os.path.join(folder, "cgroup.procs")) as file:
                pids = file.read().split()
            if not pids:
                break
            for pid in pids:
                _write(os.path.join(root, "cgroup.procs"), pid)
        os.rmdir(folder)
