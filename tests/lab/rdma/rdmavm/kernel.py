"""The machine's kernel: one of those in /boot, whichever kernel runs this computer, and the modules it needs."""

import glob
import gzip
import lzma
import os
import re
import shutil
import subprocess

from .errors import Missing

# Loaded in this order, each after those that it depends on. rdma_rxe cannot make a device without crc32_generic, and
# its dependencies do not say so; newer kernels have no such module, and need none.
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "crc32_generic", "veth",
           "ib_uverbs", "rdma_ucm", "rdma_rxe")
WHERE_THERE_IS = ("crc32_generic",)
PACKAGE = "linux-image-amd64"


def unpacked(name, data):
    """The module of a file, which newer distributions compress."""
    if name.endswith(".xz"):
        return lzma.decompress(data)
    if name.endswith(".gz"):
        return gzip.decompress(data)
    if name.endswith(".zst"):
        if shutil.which("zstd") is None:
            raise Missing("zstd (package zstd) to unpack the kernel's modules")
        return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def _name(path):
    return os.path.basename(path).partition(".ko")[0].replace("-", "_")


class Kernel:
    """The kernel of that version: `image` is its file, `modules()` what to load."""

    def __init__(self, image, folder):
        self.image, self.folder = image, folder

    def modules(self, wanted=MODULES):
        """Paths below `folder` in the order in which they are loaded. What is built in is left out."""
        depends, builtin = {}, set()
        try:
            with open(os.path.join(self.folder, "modules.dep")) as file:
                for line in file:
                    path, _, others = line.partition(":")
                    depends[_name(path)] = (path, others.split())
            with open(os.path.join(self.folder, "modules.builtin")) as file:
                builtin = {_name(line.strip()) for line in file}
        except OSError as error:
            raise Missing("the list of the modules of %s (%s)" % (self.image, error.strerror)) from None
        order = []
        for name in wanted:
            if name in depends:
                path, others = depends[name]
                order += [each for each in [*reversed(others), path] if each not in order]
            elif name not in builtin and name not in WHERE_THERE_IS:
                raise Missing("the module %s of %s (package %s; on Ubuntu linux-modules-extra-*)" % (
                    name, self.image, PACKAGE))
        return order

    def read(self, module):
        with open(os.path.join(self.folder, module), "rb") as file:
            return unpacked(module, file.read())


def _version(image):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", os.path.basename(image))]


def find(boot="/boot", modules="/lib/modules"):
    """The newest kernel that can be read and has all modules. Missing says what the newest one lacks."""
    images = sorted(glob.glob(os.path.join(boot, "vmlinuz-*")), key=_version, reverse=True)
    reasons = []
    for image in images:
        folder = os.path.join(modules, os.path.basename(image)[len("vmlinuz-"):])
        kernel = Kernel(image, folder)
        try:
            if not os.access(image, os.R_OK):
                raise Missing("to read %s, as root or by chmod" % image)
            kernel.modules()
            return kernel
        except Missing as reason:
            reasons.append(reason)
    raise reasons[0] if reasons else Missing("a kernel in %s (package %s)" % (boot, PACKAGE))
