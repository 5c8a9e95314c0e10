"""Programs of this computer that go into the machine, or make it, and the libraries that they need."""

import glob
import os
import re
import shutil
import subprocess

from .errors import Missing, VmError

# What is needed here and in the machine, with the package that holds it.
HERE = {"qemu-system-x86_64": "qemu-system-x86", "ldd": "libc-bin"}
INSIDE = {"busybox": "busybox-static", "bash": "bash", "ip": "iproute2", "rdma": "iproute2", "setpriv": "util-linux",
          "ibv_devinfo": "ibverbs-utils", "ibv_rc_pingpong": "ibverbs-utils"}
# What is there for those who look into the machine, if it is here.
OPTIONAL = ("ibv_devices", "ibv_ud_pingpong", "ib_write_bw", "ib_write_lat", "ib_send_bw", "ib_send_lat", "ib_read_bw",
            "ib_read_lat", "ib_atomic_lat", "rping", "ucx_info", "ucx_perftest", "tc", "timeout", "stdbuf", "strace")


def find(name):
    """Where it is; those of iproute2 may be where only root looks."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")


def missing():
    """What lacks of this computer, each with its package."""
    return ["%s (package %s)" % (name, package) for name, package in {**HERE, **INSIDE}.items() if find(name) is None]


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(paths):
    """The shared libraries that these files need, as the loader names them. One `ldd` for all."""
    paths = [path for path in paths if is_elf(path)]
    if not paths:
        return []
    done = subprocess.run(["ldd", *paths], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, "LC_ALL": "C"})
    lost = sorted(set(re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)))
    if lost:
        raise VmError("the loader does not find %s, which one of these needs: %s" % (", ".join(lost), " ".join(paths)))
    return list(dict.fromkeys(re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", done.stdout, re.MULTILINE)))


def extra_folders(found):
    """Folders of libraries in which the loader does not look by itself."""
    folders = dict.fromkeys(os.path.dirname(path) for path in found)
    return [folder for folder in folders if not re.fullmatch(r"(/usr)?/lib(64|/[^/]+-linux-gnu)?", folder)]


def provider():
    """The files by which libibverbs knows rxe devices; it opens them by their folder."""
    library = [path for path in libraries([find("ibv_devinfo")]) if "/libibverbs.so" in path]
    driver = "/etc/libibverbs.d/rxe.driver"
    found = glob.glob(os.path.join(os.path.dirname(library[0]), "libibverbs", "librxe-*.so")) if library else []
    if not found or not os.path.exists(driver):
        raise Missing("libibverbs's provider for rxe (package ibverbs-providers)")
    return [driver, *found]


def ucx_modules():
    """What libucs opens beside its own libraries, without that for GPUs."""
    tool = find("ucx_info")
    library = [path for path in libraries([tool]) if "/libucs.so" in path] if tool else []
    found = glob.glob(os.path.join(os.path.dirname(library[0]), "ucx", "*.so.[0-9]")) if library else []
    return [path for path in found if not re.search("cuda|rocm|gdrcopy|ze", os.path.basename(path))]
