"""The machine's first file system: a fixed part, which is kept between runs, and the part of one run."""

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time

from . import archive, kernel, programs
from .errors import Missing, VmError

GUEST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guest")
SETUPS = ("wire", "loopback", "none")
RECORDS = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n10.0.1.1 rxea\n10.0.2.1 rxeb\n127.0.1.1 rdma-vm\n",
    "/etc/hostname": "rdma-vm\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def check_computer():
    """Missing, with all that lacks, if the machine cannot be made here. The kernel otherwise."""
    if platform.machine() != "x86_64":
        raise Missing("the machine with RDMA devices is an x86-64 one, and this computer is %s" % platform.machine())
    lacks, found = programs.missing(), None
    try:
        found = kernel.find()
    except Missing as reason:
        lacks.append(str(reason))
    try:
        if programs.find("ibv_devinfo") and programs.find("ldd"):
            programs.provider()
    except Missing as reason:
        lacks.append(str(reason))
    if lacks:
        raise Missing("the machine with RDMA devices needs %s" % ", ".join(lacks))
    return found


def fixed_files():
    """{path in the machine: path here} of all that each run has."""
    places = {name: programs.find(name) for name in (*programs.INSIDE, *programs.OPTIONAL)}
    tools = {"/usr/bin/" + name: os.path.realpath(path) for name, path in places.items() if path}
    opened = [*programs.provider(), *programs.ucx_modules()]
    runtime = [path for path in programs.libraries([tools["/usr/bin/bash"]]) if "/libc.so" in path]
    # libc opens libgcc_s when a thread is cancelled.
    opened += filter(os.path.exists, (os.path.join(os.path.dirname(path), "libgcc_s.so.1") for path in runtime))
    files = {**tools, **{path: path for path in opened}}
    files.update({path: path for path in programs.libraries(list(files.values()))})
    return files


def _write_fixed(file, found, files):
    base = archive.Archive(file)
    for short, path in archive.MERGED.items():
        base.folder(path)
        base.link(short, path[1:])
    for path in ("/dev", "/proc", "/sys", "/tmp", "/run", "/root", "/host", "/var", "/usr/sbin"):
        base.folder(path)
    for path, text in RECORDS.items():
        base.text(path, text)
    for path, source in files.items():
        base.copy(path, source)
    base.link("/usr/bin/sh", "bash")  # busybox's shell takes its own ip for iproute2's
    applets = subprocess.run([files["/usr/bin/busybox"], "--list"], stdout=subprocess.PIPE, text=True, check=True)
    for name in applets.stdout.split():
        base.link("/usr/bin/" + name, "busybox")  # unless it is there as a program of its own
    order = found.modules()
    for module in order:
        base.text("/lib/modules/" + os.path.basename(module).partition(".ko")[0] + ".ko", found.read(module))
    base.text("/lib/modules/order", "".join(os.path.basename(each).partition(".ko")[0] + ".ko\n" for each in order))
    base.close()


def _key(found, files):
    """Names what the fixed part is made of: another file, another name."""
    digest = hashlib.sha256()
    sources = [*files.items(), *((each, os.path.join(found.folder, each)) for each in found.modules())]
    own = ("archive.py", "image.py", "kernel.py", "programs.py")
    code = [(name, os.path.join(os.path.dirname(__file__), name)) for name in own]
    for name, source in sorted([*sources, *code]):
        status = os.stat(source)
        digest.update(repr((name, source, status.st_mode, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:24]


@contextlib.contextmanager
def fixed(folder, found, files):
    """The open file of the fixed part, made if it is not there. Several runs may make it at once: it gets its name
    when it is whole. What nobody has used for a day is removed then."""
    path = os.path.join(folder, "fixed-%s.cpio" % _key(found, files))
    try:
        file = open(path, "rb")
        os.utime(path)
    except FileNotFoundError:
        file = _made(folder, path, found, files)
    with file:
        yield file


def _made(folder, path, found, files):
    for name in os.listdir(folder):
        old = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if name.startswith("fixed-") and time.time() - os.stat(old).st_mtime > 86400:
                os.unlink(old)
    handle, name = tempfile.mkstemp(dir=folder, prefix="fixed-new-")
    file = os.fdopen(handle, "w+b")
    try:
        _write_fixed(file, found, files)
        file.flush()
        os.fchmod(handle, 0o644)
        os.replace(name, path)
    except BaseException:
        file.close()
        os.unlink(name)
        raise
    file.seek(0)
    return file


def _places(given):
    """[(path in the machine, path here)] of --file's PATH[:GUESTPATH], with what is in folders."""
    here, _, there = given.partition(":")
    here = os.path.abspath(here)
    there = there or here
    if not there.startswith("/"):
        raise VmError("--file %s: the path in the machine has to begin with /" % given)
    if not os.path.exists(here):
        raise VmError("--file %s: no such file" % given)
    if not os.path.isdir(here):
        return [(there, here)]
    return [(os.path.join(there, os.path.relpath(os.path.join(root, name), here)), os.path.join(root, name))
            for root, _, names in os.walk(here) for name in sorted(names)]


def _script(command, environment, folder, memlock, library_folders):
    """What the machine runs: the environment, the folder and the limits of the command, then the command."""
    lines = ["#!/bin/bash", "mkdir -p %s && cd %s" % ((shlex.quote(folder),) * 2), "ulimit -c 0 -n 65536"]
    if library_folders:
        lines.append("export LD_LIBRARY_PATH=%s" % shlex.quote(":".join(library_folders)))
    lines += ["export %s" % shlex.quote(each) for each in environment]
    words = " ".join(map(shlex.quote, command))
    if memlock is None:
        lines += ["ulimit -l unlimited", "exec -- %s" % words]
    else:  # root passes this limit by its capability, so the command runs without that
        lines += ["ulimit -l %d" % (memlock // 1024), "exec setpriv --bounding-set=-ipc_lock -- %s" % words]
    return "\n".join(lines) + "\n"


def write_run(file, options, token, has):
    """The part of one run. `has` are the paths that the fixed part brings."""
    places = [each for given in options.file for each in _places(given)]
    program = options.command[0]
    if "/" in program and os.path.isfile(program) and archive.real(os.path.abspath(program)) not in has:
        places.append((os.path.abspath(program), os.path.abspath(program)))
    found = programs.libraries([source for _, source in places])
    run = archive.Archive(file)
    for path, source in [*places, *((path, path) for path in found if archive.real(path) not in has)]:
        run.copy(path, source)
    script = _script(options.command, options.environment, os.getcwd(), options.memlock, programs.extra_folders(found))
    run.text("/vm/run", script, 0o755)
    run.text("/vm/token", token)
    run.text("/vm/share", "yes" if options.share else "")
    run.copy("/init", os.path.join(GUEST, "init"), 0o755)
    if options.setup != "none":
        run.copy("/vm/setup", os.path.join(GUEST, options.setup), 0o755)
    run.close()


def write(file, options, token, found, cache):
    """The whole file system as qemu takes it, in one file."""
    files = fixed_files()
    with fixed(cache, found, files) as part:
        shutil.copyfileobj(part, file, 1 << 20)
    write_run(file, options, token, {archive.real(each) for each in files})
    file.flush()
