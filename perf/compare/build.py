"""Gets what is compared: packages of the peers, ECCL's release build, and the programs of the loop."""

import os
import shutil
import subprocess

import wheels
from contenders import ALL, HERE

ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = ("compare_eccl", "compare_probe", "compare_cma", "compare_ring", "compare_bandwidth",
           "compare_exchange", "compare_apart", "compare_loop", "compare_loop_python")


def plot_is_possible():
    try:
        import matplotlib  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def install(peers, say, plot=True):
    """Installs what is missing. Why peers are left out, by name; SystemExit where nothing can be installed."""
    missing = [peer for peer in peers if not ALL[peer].present()]
    left_out = {**fetch_wheels(missing, say), **install_modules(missing, say)}
    wanted = {peer: ALL[peer].packages for peer in missing if ALL[peer].packages}
    if plot and not plot_is_possible():
        wanted["plot"] = ("python3-matplotlib",)
    if not wanted:
        return left_out
    packages = " ".join(package for names in wanted.values() for package in names)
    root = [] if os.geteuid() == 0 else ["sudo"]
    if not shutil.which("apt-get") or (root and not shutil.which("sudo")):
        raise SystemExit("compare: needs %s. Install that, as root: apt-get install %s; or go on without: --no-install"
                         % (" and ".join(wanted), packages))
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    subprocess.run([*apt, "update"], check=False)  # the lists that are there may do
    for name, packages in wanted.items():
        say("installing " + " ".join(packages))
        done = subprocess.run([*apt, "install", "-y", "--no-install-recommends", *packages],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0 or (name in ALL and not ALL[name].present()):
            errors = [line for line in done.stderr.splitlines() if line.strip()]
            left_out[name] = "apt-get install %s: %s" % (" ".join(packages), errors[-1] if errors else "of no use")
    return left_out


def fetch_wheels(peers, say):
    left_out = {}
    for peer in peers:
        for name, requirement, part in ALL[peer].wheels:
            if ALL[name].present():
                continue
            say("fetching " + requirement)
            why = wheels.fetch(name, requirement, part)
            if why:
                left_out[peer] = why
                break
    return left_out


def install_modules(peers, say):
    left_out = {}
    for peer in [peer for peer in peers if ALL[peer].modules]:
        say("fetching %s and what it needs: gigabytes" % ALL[peer].modules)
        why = wheels.install(peer, ALL[peer].modules)
        if why or not ALL[peer].present():
            left_out[peer] = why or "pip install %s: of no use" % ALL[peer].modules
    return left_out


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit("compare: this failed: %s\n%s" % (" ".join(command), done.stdout))


def build_eccl(say):
    """The folder of the programs, in the release build, which keeps its options if it is there."""
    if not os.path.exists(os.path.join(ROOT, "build/release/CMakeCache.txt")):
        run("cmake", "--preset", "release", "-DECCL_BUILD_TESTS=OFF")
    say("building ECCL into build/release")
    run("cmake", "--build", "--preset", "release", "--parallel", str(os.cpu_count()), "--target", *TARGETS)
    return os.path.join(ROOT, "build/release/perf/compare")


def build_peers(folder, peers):
    for peer in peers:
        if ALL[peer].compiler:
            run(*ALL[peer].compiler, "-O2", os.path.join(HERE, ALL[peer].source),
                os.path.join(folder, "libcompare_loop.a"), "-o", os.path.join(folder, "mpi_" + peer), *ALL[peer].libraries)
