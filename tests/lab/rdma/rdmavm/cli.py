"""The command line of the machine."""

import argparse
import os
import secrets
import signal
import sys
import tempfile

from . import image, machine, programs
from .errors import Missing, Signalled, VmError

ABOUT = """Runs COMMAND in a small virtual machine with RDMA: qemu without KVM, a kernel of /boot, and rxe.
Two devices, rxea (10.0.1.1) and rxeb (10.0.2.1), are joined by a wire: a pair of veths, va and vb, which all traffic
between the two crosses, so /sys/class/net/va/statistics counts it. The IPv4 GID of each has the index 1.

  vm -- ibv_devinfo
  vm -- build/ci/tests/base_tests
  vm --file module.so --environment NAME=1 -- build/ci/tests/transport_tests --gtest_filter='Path*'

COMMAND runs as root, in a folder of the same name as the one it is started from. If it names a program by its path,
the program goes into the machine with the shared libraries that it needs. Otherwise it is one of those in the machine:
those of busybox, bash, ip, rdma, ibv_devinfo, ibv_rc_pingpong, and of perftest and UCX where they are installed. Its
standard output and its standard error come out at the standard output."""
EXIT = """Exit status: that of COMMAND (128 + N after signal N). Otherwise a line that begins with "vm: " says why:
  2    the command line, or a file that is named there
  77   skipped: this computer lacks what the machine is made of
  120  the machine's kernel panicked
  121  the machine ended without that, for example because COMMAND switched it off
  122  the machine could not make its devices
  124  --timeout"""


def say(text):
    print("vm: " + text, file=sys.stderr, flush=True)


def _number(least, kind=int):
    def number(text):
        value = kind(text)
        if not least <= value < 1e9:
            raise argparse.ArgumentTypeError("%s: it has to be %g or more" % (text, least))
        return value
    return number


def _assignment(text):
    if not text.partition("=")[0].isidentifier() or "=" not in text:
        raise argparse.ArgumentTypeError("%s: it has to be NAME=VALUE" % text)
    return text


def _folder(text):
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError("%s is no folder" % text)
    return os.path.abspath(text)


def parser():
    top = argparse.ArgumentParser(prog="vm", usage="vm [OPTIONS] -- COMMAND [ARGUMENTS]", description=ABOUT,
                                  epilog=EXIT, formatter_class=argparse.RawDescriptionHelpFormatter,
                                  allow_abbrev=False)
    top.add_argument("--setup", choices=image.SETUPS, default="wire",
                     help="wire: as above, the default; loopback: rxea only; none: no device")
    top.add_argument("--file", action="append", default=[], metavar="PATH[:GUESTPATH]",
                     help="puts a file, or all that a folder holds, into the machine, there or under the same path, "
                     "with the shared libraries that it needs; may be repeated")
    top.add_argument("--share", type=_folder, metavar="DIR",
                     help="a folder of this computer that is /host in the machine")
    top.add_argument("--environment", action="append", default=[], type=_assignment, metavar="NAME=VALUE",
                     help="of COMMAND, which gets nothing of the environment here; may be repeated")
    top.add_argument("--memlock", type=_number(0), metavar="BYTES",
                     help="COMMAND may lock so much memory, and has no privilege to lock more (as much as it likes)")
    top.add_argument("--timeout", type=_number(0.1, float), default=120, metavar="S",
                     help="ends the machine after so many seconds, starting it included (120)")
    top.add_argument("--memory", type=_number(256), default=1024, metavar="MIB", help="of the machine (1024)")
    top.add_argument("--cpus", type=_number(1), default=2, metavar="N", help="of the machine (2)")
    top.add_argument("--cache", metavar="DIR",
                     help="keeps what all runs have in common there (some 30 MiB); several runs may use it at once")
    top.add_argument("--verbose", action="store_true",
                     help="the kernel's console, and how long the start took, on standard error")
    top.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND...")
    return top


def options_of(words):
    top = parser()
    options = top.parse_args(words)
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    if not options.command:
        top.error("no command: vm [OPTIONS] -- COMMAND [ARGUMENTS]")
    return options


def run(options):
    kernel = image.check_computer()
    token = secrets.token_hex(12)
    with tempfile.TemporaryFile(prefix="eccl-rdma-vm-") as initramfs:  # without a name: nothing is left behind
        if options.cache:
            os.makedirs(options.cache, exist_ok=True)
            image.write(initramfs, options, token, kernel, options.cache)
        else:
            with tempfile.TemporaryDirectory(prefix="eccl-rdma-vm-") as folder:
                image.write(initramfs, options, token, kernel, folder)
        machine.check_memory(options, initramfs.tell())
        qemu = programs.find("qemu-system-x86_64")
        return machine.Machine(qemu, kernel.image, initramfs, options, token, say).run()


def _signalled(number, _):
    raise Signalled(number)


def main(words):
    options = options_of(words)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _signalled)
    try:
        return run(options)
    except Missing as reason:
        print("skipped: %s" % reason, flush=True)
        return reason.status
    except VmError as error:
        say(str(error))
        return error.status
    except Signalled as end:
        return 128 + end.number
    except BrokenPipeError:  # whoever read on has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        say(str(error))
        return VmError.status
