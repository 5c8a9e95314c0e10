"""How a run ends: with a program in qemu's place that says what a machine would, or with a machine (real_...).
Arguments: a test's name, and a folder for --cache."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True

from rdmavm import cli, machine  # noqa: E402
from rdmavm.errors import Died, Panic, SetupFailed, TimedOut, VmError  # noqa: E402
from vm_test import VM, check  # noqa: E402

PRETENDER = """#!%s
import os, re, sys, time
words = " ".join(sys.argv)
def say(port, data):
    os.write(int(re.search("id=%%s,fd=([0-9]+)" %% port, words).group(1)), data)
%s
"""


def ended(acts, **options):
    """(exit status or error, output) of a run in which qemu is a program that acts so."""
    given = cli.options_of(["true"])
    given.__dict__.update(options)
    with tempfile.TemporaryDirectory() as folder:
        qemu = os.path.join(folder, "qemu")
        with open(qemu, "w") as file:
            file.write(PRETENDER % (sys.executable, acts))
        os.chmod(qemu, 0o755)
        with open(os.path.join(folder, "output"), "w+b") as output:
            before = os.dup(1)
            os.dup2(output.fileno(), 1)
            try:
                result = machine.Machine(qemu, "kernel", output, given, "tok", cli.say).run()
            except VmError as error:
                result = error
            finally:
                os.dup2(before, 1)
                os.close(before)
            output.seek(0)
            return result, output.read()


def ends_are_told_apart():
    up = 'say("output", b"\\0tok up\\n")\n'
    result, output = ended(up + 'say("output", b"said so\\n\\0tok end 7\\n")\ntime.sleep(60)')
    check((result, output) == (7, b"said so\n"), "the command's status: %s %s" % (result, output))
    for acts, kind, words, status in (
            ('say("output", b"\\0tok failed insmod x\\n")\ntime.sleep(60)', SetupFailed, ("insmod x",), 122),
            (up + 'say("console", b"first\\nKernel panic - not syncing: so it is\\n")', Panic,
             ("so it is", "while the command ran", "first"), 120),
            ('say("console", b"Kernel panic - not syncing: no init\\n")', Panic, ("no init", "before it was up"), 120),
            ('say("console", b"odd\\n")\nsys.exit("qemu: no such device")', Died,
             ("no such device", "exit code 1", "odd"), 121),
            (up + "os.kill(os.getpid(), 9)", Died, ("while the command ran", "by signal 9"), 121),
            (up + 'say("output", b"begun")\ntime.sleep(60)', TimedOut, ("the command did not end within 2 s",), 124),
            ('say("console", b"loading\\n")\ntime.sleep(60)', TimedOut, ("was not up within 2 s", "loading"), 124)):
        result, output = ended(acts, timeout=2)
        check(isinstance(result, kind) and result.status == status, "%s: %r" % (acts, result), str(result))
        for word in words:
            check(word in str(result), "%r is not said" % word, str(result))
        check(output == (b"begun" if "begun" in acts else b""), "output", str(output))


def what_hangs_is_started_again():
    machine.UP_WITHIN = 1
    with tempfile.TemporaryDirectory() as folder:
        note = os.path.join(folder, "note")
        first = "try:\n  open(%r, 'x')\nexcept FileExistsError:\n  pass\nelse:\n  time.sleep(60)\n" % note
        works = 'say("output", b"\\0tok up\\nsaid so\\n\\0tok end 7\\n")\ntime.sleep(60)'
        result, output = ended(first + works, timeout=20)
        check((result, output) == (7, b"said so\n"), "the second start: %s %s" % (result, output))
        result, output = ended("open(%r, 'a').write('x')\ntime.sleep(60)" % note, timeout=4)
        check(isinstance(result, TimedOut), "%r" % result, str(result))
        with open(note) as file:
            check(file.read() == machine.STARTS * "x", "it was not started %d times" % machine.STARTS)


def _alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def machine_ends_with_the_program():
    """Also when nothing is left to the program, as by SIGKILL."""
    script = """import sys
sys.path.insert(0, %r)
import signal
from rdmavm import cli, machine
cli.run = lambda given: machine.Machine(sys.argv[1], "kernel", sys.stdin, given, "tok", cli.say).run()
sys.exit(cli.main(["true"]))
""" % HERE
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as folder:
            qemu, note = os.path.join(folder, "qemu"), os.path.join(folder, "pid")
            with open(qemu, "w") as file:
                acts = "open(%r, 'w').write(str(os.getpid()))\nos.rename(%r, %r)\ntime.sleep(60)"
                file.write(PRETENDER % (sys.executable, acts % (note + "-new", note + "-new", note)))
            os.chmod(qemu, 0o755)
            with subprocess.Popen([sys.executable, "-c", script, qemu], stdin=subprocess.DEVNULL) as program:
                deadline = time.monotonic() + 30
                while not os.path.exists(note):
                    check(time.monotonic() < deadline, "it does not start")
                    time.sleep(0.02)
                with open(note) as file:
                    pid = int(file.read())
                check(_alive(pid), "no process %d" % pid)
                program.send_signal(number)
                status = program.wait(30)
            expected = -9 if number == signal.SIGKILL else 128 + number
            check(status == expected, "signal %d: status %d" % (number, status))
            while _alive(pid):
                check(time.monotonic() < deadline, "signal %d: the machine is left" % number)
                time.sleep(0.02)


def _vm(cache, *words):
    """A run with a machine. Ends the test as skipped where there is none."""
    done = subprocess.run([sys.executable, VM, "--cache", cache, "--timeout", "120", *words], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 77:
        print(done.stdout, end="")
        sys.exit(77)
    return done.returncode, done.stdout, done.stderr


def real_panic(cache):
    script = "echo before; echo c >/proc/sysrq-trigger; sleep 60"
    status, output, errors = _vm(cache, "--setup", "none", "--", "sh", "-c", script)
    check(status == 120 and output == "before\n", "status %d" % status, output + errors)
    said = "vm: the machine's kernel panicked while the command ran: sysrq triggered crash"
    check(said in errors, "the message", errors)


def real_command(cache):
    """Its status, words, environment, limits and files; a program of this computer runs; what it leaves running does
    not matter."""
    sort = shutil.which("sort") or "/usr/bin/sort"
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "share"))
        with open(os.path.join(folder, "script"), "w") as file:
            file.write("""#!/bin/bash
[ "$1" = "a b" ] && [ "$X" = "it's" ] && [ "$PWD" = "$2" ] || echo "words: $*, $X, $PWD"
[ "$(ulimit -l)" = 64 ] || echo "ulimit -l: $(ulimit -l)"
cp "$0" /host/copy
touch /dev/shm/x /tmp/x || echo "no /dev/shm"
grep -q root /etc/passwd && ping -c 1 -W 5 localhost >/dev/null || echo "no loopback"
ibv_devinfo -d rxea -v | grep -q ::ffff:10.0.1.1 || echo "no device"
%s --version | grep -q GNU || echo "no program"
ibv_rc_pingpong -d rxea -g 1 -s 1000000 2>&1 | grep -q "Couldn't register MR" || echo "more memory can be locked"
echo /dev/stderr >/dev/stderr
sleep 100 &
exit 43
""" % sort)
        os.chmod(os.path.join(folder, "script"), 0o755)
        given = ("--setup", "loopback", "--share", folder + "/share", "--memlock", "65536", "--environment", "X=it's",
                 "--file", sort)
        status, output, errors = _vm(cache, *given, "--", folder + "/script", "a b", os.getcwd())
        check(status == 43 and output == "/dev/stderr\n", "status %d" % status, output + errors)
        with open(folder + "/share/copy") as copy, open(folder + "/script") as file:
            check(copy.read() == file.read(), "the copy in the shared folder")


TESTS = (ends_are_told_apart, what_hangs_is_started_again, machine_ends_with_the_program, real_panic, real_command)

if __name__ == "__main__":
    test = {test.__name__: test for test in TESTS}[sys.argv[1]]
    test(*sys.argv[2:3] if test.__name__.startswith("real") else ())
    print("passed")
