"""What makes the machine, as far as it can be seen without starting one. Argument: a test's name."""

import gzip
import io
import lzma
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True

from rdmavm import archive, cli, image, kernel, machine, messages, programs  # noqa: E402
from rdmavm.errors import Missing, VmError  # noqa: E402

VM = os.path.join(HERE, "vm")


def check(condition, message, output=""):
    if not condition:
        sys.exit("FAILED: %s\n%s" % (message, output))


def refused(wanted, function, *arguments, kind=VmError):
    """The function has to raise an error that says `wanted`."""
    try:
        function(*arguments)
    except kind as error:
        check(wanted in str(error), "the error does not say %r" % wanted, str(error))
        return
    sys.exit("FAILED: nothing is said of %r" % wanted)


def vm(*words, path=None):
    """(exit status, standard output, standard error) of the program."""
    environment = {**os.environ, **({"PATH": path} if path is not None else {})}
    done = subprocess.run([sys.executable, VM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=environment, timeout=60)
    return done.returncode, done.stdout, done.stderr


def options():
    given = cli.options_of(["--file", "a", "--file", "b:/c", "--environment", "A=b=c", "--memlock", "65536",
                            "--timeout", "1.5", "--", "program", "--timeout", "--", "x"])
    check(given.file == ["a", "b:/c"] and given.environment == ["A=b=c"], "lists", str(given))
    check(given.memlock == 65536 and given.timeout == 1.5, "numbers", str(given))
    check(given.setup == "wire" and given.share is None, "defaults", str(given))
    check(given.command == ["program", "--timeout", "--", "x"], "the command's own options", str(given.command))
    check(cli.options_of(["true", "--verbose"]).command == ["true", "--verbose"], "a command without --")
    for words, said in (([], "no command"), (["--"], "no command"), (["--setup", "ring", "--", "true"], "--setup"),
                        (["--environment", "A", "--", "true"], "NAME=VALUE"),
                        (["--memory", "1", "--", "true"], "256 or more"),
                        (["--timeout", "0", "--", "true"], "0.1 or more"),
                        (["--share", "/nowhere", "--", "true"], "no folder"),
                        (["--time", "3", "--", "true"], "--time")):
        status, _, errors = vm(*words)
        check(status == 2 and said in errors, "vm %s: status %d" % (" ".join(words), status), errors)
    status, output, _ = vm("--help")
    check(status == 0, "--help ends with status %d" % status)
    for word in ("--setup", "--file", "--share", "--environment", "--memlock", "--timeout", "--memory", "--cpus",
                 "--cache", "77", "124"):
        check(word in output, "--help leaves out %s" % word, output)


def _tree(folder, files):
    for path, data in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())


def kernels():
    """The newest one that has the modules, dependencies first, whichever way they are packed."""
    left = ("rdma_rxe", "veth", "crc32_generic")
    every = "".join("kernel/%s.ko:\n" % name for name in kernel.MODULES if name not in left)
    every += "kernel/a/rdma_rxe.ko.xz: kernel/a/ib-core.ko kernel/b/udp_tunnel.ko.gz\nkernel/a/ib-core.ko:\n"
    every += "kernel/b/udp_tunnel.ko.gz:\n"
    with tempfile.TemporaryDirectory() as root:
        boot, modules = os.path.join(root, "boot"), os.path.join(root, "modules")
        refused("package linux-image-amd64", kernel.find, boot, modules, kind=Missing)
        _tree(root, {"boot/vmlinuz-6.9.1": "", "boot/vmlinuz-6.10.2-cloud": "", "boot/vmlinuz-6.12": "",
                     "modules/6.9.1/modules.dep": every, "modules/6.9.1/modules.builtin": "kernel/net/veth.ko\n",
                     "modules/6.10.2-cloud/modules.dep": every,
                     "modules/6.10.2-cloud/modules.builtin": "kernel/net/veth.ko\n",
                     "modules/6.9.1/kernel/a/rdma_rxe.ko.xz": lzma.compress(b"rxe"),
                     "modules/6.9.1/kernel/b/udp_tunnel.ko.gz": gzip.compress(b"tunnel"),
                     "modules/6.9.1/kernel/a/ib-core.ko": b"core"})
        found = kernel.find(boot, modules)
        check(found.image.endswith("vmlinuz-6.10.2-cloud"), "chose %s" % found.image)
        os.unlink(os.path.join(modules, "6.10.2-cloud", "modules.builtin"))
        found = kernel.find(boot, modules)
        check(found.image.endswith("vmlinuz-6.9.1"), "chose %s" % found.image)
        order = found.modules()
        last = ["kernel/b/udp_tunnel.ko.gz", "kernel/a/ib-core.ko", "kernel/a/rdma_rxe.ko.xz"]
        check(order[-3:] == last, "order", str(order))
        check(not any("veth" in each for each in order), "what is built in is loaded", str(order))
        check([found.read(each) for each in order[-3:]] == [b"tunnel", b"core", b"rxe"], "modules are not unpacked")
        refused("the module nonsense", found.modules, ("nonsense",), kind=Missing)
        if shutil.which("zstd"):
            packed = subprocess.run(["zstd", "-cq"], input=b"module", stdout=subprocess.PIPE, check=True).stdout
            check(kernel.unpacked("x.ko.zst", packed) == b"module", "a module packed by zstd")
        _without_programs(lambda: refused("package zstd", kernel.unpacked, "x.ko.zst", b"", kind=Missing))


def _without_programs(function):
    before = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere"
    try:
        function()
    finally:
        os.environ["PATH"] = before


def archives():
    """What is written is read back, by this code and by cpio where it is; folders come before what they hold."""
    buffer = io.BytesIO()
    for text in ("one", "two"):
        part = archive.Archive(buffer)
        part.folder("/usr/lib")
        part.text("/lib/x86/%s.so" % text, text, 0o755)
        part.text("/lib/x86/%s.so" % text, "written again")
        part.link("/bin", "usr/bin")
        part.close()
        buffer.write(bytes(512))
    listed = list(archive.entries(buffer.getvalue()))
    files = {path: (mode, content) for path, mode, content in listed}
    check(files["/usr/lib/x86/one.so"] == (0o100755, b"one"), "files", str(listed))
    check(files["/usr/lib/x86/two.so"][1] == b"two", "files of the second archive", str(listed))
    check(files["/bin"] == (0o120777, b"usr/bin"), "links", str(listed))
    names = [path for path, _, _ in listed]
    check(names[:4] == ["/usr", "/usr/lib", "/usr/lib/x86", "/usr/lib/x86/one.so"], "order", str(names))
    check(archive.real("/lib64/ld.so") == "/usr/lib64/ld.so", "a path with a link")
    check(archive.real("/library/x") == "/library/x", "a path without links")
    if shutil.which("cpio"):
        done = subprocess.run(["cpio", "-itv", "--quiet"], input=buffer.getvalue(), stdout=subprocess.PIPE, check=True)
        said = done.stdout.decode()
        check("usr/lib/x86/one.so" in said and "bin -> usr/bin" in said, "cpio -t", said)


def messages_():
    """However the stream is cut, output and messages come out of it."""
    stream = b"\0tok up\nout\0put\0to\0tok end 3\nrest"
    for piece in range(1, len(stream) + 1):
        reader, output, said = messages.Messages("tok"), b"", []
        for begin in range(0, len(stream), piece):
            text, more = reader.take(stream[begin:begin + piece])
            output, said = output + text, said + more
        whole = output == b"out\0put\0torest" and said == ["up", "end 3"] and reader.up
        check(whole, "pieces of %d: %r %r" % (piece, output, said))
    check(messages.Messages("tok").take(b"begin\0to")[0] == b"begin", "output is held back")


messages_.__name__ = "messages"


def _run_part(*words):
    """{path: (mode, content)} of what one run adds."""
    buffer = io.BytesIO()
    image.write_run(buffer, cli.options_of(list(words)), "tok", {"/usr/bin/bash"})
    return {path: (mode, content) for path, mode, content in archive.entries(buffer.getvalue())}


def files_and_libraries():
    """Files go where they are said to go, with libraries also of other folders; the command is passed on word by
    word."""
    if programs.find("ldd") is None:
        print("skipped: ldd is not installed")
        return
    python = os.path.realpath(sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        _tree(folder, {"data/a": "A", "data/deep/b": "B", "c": "C"})
        files = _run_part("--file", folder + "/data:/d", "--file", folder + "/c", "--environment", "X=a b",
                          "--", python, "it's", "a b")
        there = [files.get(path, ("", b""))[1] for path in ("/d/a", "/d/deep/b", folder + "/c")]
        check(there == [b"A", b"B", b"C"], "files", str(sorted(files)))
        check(archive.real(python) in files, "the program of the command is not there")
        for library in ("/libc.so", "/ld-linux"):
            check(any(library in path for path in files), "no " + library, str(sorted(files)))
        script = files["/vm/run"][1].decode()
        check("\nexport 'X=a b'\n" in script, "environment", script)
        last = "\nulimit -l unlimited\nexec -- %s 'it'\"'\"'s' 'a b'\n" % python
        check(script.endswith(last), "the command", script)
        check("cd %s" % os.getcwd() in script, "folder", script)
        script = _run_part("--memlock", "65536", "--", "true")["/vm/run"][1].decode()
        check(script.endswith("\nulimit -l 64\nexec setpriv --bounding-set=-ipc_lock -- true\n"), "--memlock", script)
        check("/vm/setup" not in _run_part("--setup", "none", "--", "true"), "--setup none makes devices")
        check(b"10.0.2.1" in _run_part("--", "true")["/vm/setup"][1], "--setup wire")
        check("/usr/bin/bash" not in _run_part("--", "/bin/bash"), "what the fixed part has is brought again")
        refused("no such file", _run_part, "--file", folder + "/none", "--", "true")
        refused("begin with /", _run_part, "--file", folder + "/c:d", "--", "true")
    found = programs.extra_folders(["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/libx.so", "/lib64/ld.so",
                                    "/opt/lib/liby.so", "/usr/local/lib/libz.so"])
    check(found == ["/opt/lib", "/usr/local/lib"], "folders of libraries", str(found))
    refused("--memory 1024", machine.check_memory, cli.options_of(["true"]), 600 << 20)
    machine.check_memory(cli.options_of(["true"]), 100 << 20)


def the_fixed_part_is_kept():
    """The second run takes what the first has made; a part that nobody uses goes; what all runs need is in it."""
    try:
        found = image.check_computer()
    except Missing as reason:
        print("skipped: %s" % reason)
        return
    files = image.fixed_files()
    with tempfile.TemporaryDirectory() as folder:
        _tree(folder, {"fixed-old.cpio": "", "other": ""})
        os.utime(os.path.join(folder, "fixed-old.cpio"), (0, 0))
        with image.fixed(folder, found, files) as part:
            content, first = part.read(), os.fstat(part.fileno()).st_ino
        with image.fixed(folder, found, files) as part:
            check(os.fstat(part.fileno()).st_ino == first, "it was made twice")
        names = os.listdir(folder)
        check(len(names) == 2 and "other" in names and "fixed-old.cpio" not in names, "left: %s" % names)
        with image.fixed(folder, found, {**files, "/extra": os.path.join(folder, "other")}) as part:
            check(os.fstat(part.fileno()).st_ino != first, "another content has the same name")
    paths = {path: (mode, data) for path, mode, data in archive.entries(content)}
    for path in (*("/usr/bin/" + name for name in programs.INSIDE), "/lib/modules/order", "/etc/passwd", "/etc/hosts",
                 "/etc/libibverbs.d/rxe.driver", "/host", "/dev", "/tmp"):
        check(archive.real(path) in paths, "%s is not there" % path)
    check(any("/libibverbs/librxe-" in path for path in paths), "no provider for rxe")
    check(paths["/usr/bin/sh"][1] == b"bash" and paths["/usr/bin/vi"][1] == b"busybox", "links to programs")
    check(paths["/usr/bin/ip"][1][:4] == b"\x7fELF", "ip is busybox's")
    order = paths["/usr/lib/modules/order"][1].decode().split()
    check(order.index("crc32_generic.ko") < order.index("rdma_rxe.ko"), "order of modules", str(order))
    check(all("/usr/lib/modules/" + each in paths for each in order), "modules are missing", str(order))


def lacks_are_named():
    """Where programs are not to be had, one line names each with its package, and the status is 77."""
    with tempfile.TemporaryDirectory() as folder:
        there = [name for name in programs.HERE if programs.find(name)]
        for name in there:
            os.symlink(programs.find(name), os.path.join(folder, name))
        for path, lacks, has in ((folder, ("busybox", "bash"), there),
                                 ("/nowhere", ("busybox", "bash", *programs.HERE), ())):
            status, output, errors = vm("--", "true", path=path)
            check(status == 77, "status %d" % status, output + errors)
            check(output.startswith("skipped: ") and output.count("\n") == 1, "the reason", output)
            for name in lacks:
                package = {**programs.HERE, **programs.INSIDE}[name]
                check("%s (package %s)" % (name, package) in output, "%s is not named" % name, output)
            for name in has:
                check("%s (package" % name not in output, "%s is named, and is there" % name, output)


TESTS = (options, kernels, archives, messages_, files_and_libraries, the_fixed_part_is_kept, lacks_are_named)

if __name__ == "__main__":
    {test.__name__: test for test in TESTS}[sys.argv[1]]()
    print("passed")
