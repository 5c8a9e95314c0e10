"""A run of qemu: it is started, its output is passed on, it is ended, and how it ended is told apart."""

import contextlib
import ctypes
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

from .errors import Died, Panic, SetupFailed, TimedOut, VmError
from .messages import Messages

PR_SET_PDEATHSIG = 1
KEPT = 65536  # bytes of the console
# Seconds. A machine that is not up by then hangs: seldom, one of qemu's spins from its beginning, and says nothing.
UP_WITHIN = 90
STARTS = 3
# The clock and the interrupts of an emulated processor need no checks; whatever goes wrong in the kernel is a panic,
# and a panic ends qemu.
KERNEL = ("console=ttyS0 loglevel=4 nokaslr mitigations=off tsc=reliable no_timer_check nowatchdog "
          "random.trust_cpu=on panic=-1 oops=panic")


def arguments(qemu, kernel, initramfs, options, output, console):
    """Of qemu. `initramfs` is the descriptor of a file, `output` and `console` are those of sockets."""
    command = [qemu, "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-machine", "q35",
               "-smp", str(options.cpus), "-m", str(options.memory),
               "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
               "-kernel", kernel, "-initrd", "/proc/self/fd/%d" % initramfs, "-append", KERNEL,
               "-chardev", "socket,id=console,fd=%d" % console, "-serial", "chardev:console",
               "-chardev", "socket,id=output,fd=%d" % output, "-device", "virtio-serial-pci",
               "-device", "virtserialport,chardev=output,name=output"]
    if options.share:
        path = options.share.replace(",", ",,")
        command += ["-fsdev", "local,id=host,path=%s,security_model=none,multidevs=remap" % path,
                    "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
    return command


def _end_with(parent):
    """In the new process: it ends when this program does, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def _started(qemu, kernel, initramfs, options):
    """The process, and this end of its output, console and errors."""
    output, its_output = socket.socketpair()
    console, its_console = socket.socketpair()
    parent, process = os.getpid(), None
    with output, console:
        with its_output, its_console:
            given = (initramfs.fileno(), its_output.fileno(), its_console.fileno())
            command = arguments(qemu, kernel, given[0], options, *given[1:])
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, start_new_session=True, pass_fds=given,
                                       preexec_fn=lambda: _end_with(parent))
        try:
            yield process, output, console
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


class Machine:
    """One run. `initramfs` is an open file. `say` takes what the user is told beside the command's output."""

    def __init__(self, qemu, kernel, initramfs, options, token, say):
        self._begin = (qemu, kernel, initramfs, options)
        self._options, self._say, self._token = options, say, token

    def run(self):
        """The status of the command. What hangs before it has begun is started again, which the user is told."""
        until = time.monotonic() + self._options.timeout
        for again in reversed(range(STARTS)):
            status = self._start(until, UP_WITHIN if again else self._options.timeout)
            if status is not None:
                return status
            self._say("the machine was not up within %g s, and is started again%s" % (UP_WITHIN, self._said()))

    def _start(self, until, up_within):
        """The status; None: it is not up in time."""
        self._messages, self._console, self._errors = Messages(self._token), b"", b""
        self._status, self._up = None, False
        begun = time.monotonic()
        with _started(*self._begin) as (process, output, console), selectors.DefaultSelector() as waiting:
            for source, take in ((output, self._take_output), (console, self._take_console),
                                 (process.stderr, self._take_errors)):
                waiting.register(source, selectors.EVENT_READ, take)
            while self._status is None and waiting.get_map():
                left = (until if self._up else min(until, begun + up_within)) - time.monotonic()
                if left <= 0 and time.monotonic() < until:
                    return None
                if left <= 0:
                    raise self._too_late()
                for key, _ in waiting.select(left):
                    if not key.data(_read(key.fileobj)):
                        waiting.unregister(key.fileobj)
                if not self._up and self._messages.up:
                    self._up = True
                    if self._options.verbose:
                        self._say("up after %.1f s" % (time.monotonic() - begun))
            if self._status is not None:
                return self._status
            raise self._death(process.wait())

    def _take_output(self, data):
        text, messages = self._messages.take(data)
        _write(text)
        for message in messages:
            word, _, rest = message.partition(" ")
            if word == "end":
                self._status = int(rest)
            elif word == "failed":
                raise SetupFailed("the machine could not make its devices (%s)%s" % (rest, self._said()))
        return data

    def _take_console(self, data):
        if self._options.verbose:
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()
        self._console = (self._console + data)[-KEPT:]
        return data

    def _take_errors(self, data):
        self._errors = (self._errors + data)[-KEPT:]
        return data

    def _too_late(self):
        if self._up:
            return TimedOut("the command did not end within %g s (--timeout)" % self._options.timeout)
        return TimedOut("the machine was not up within %g s (--timeout)%s" % (self._options.timeout, self._said()))

    def _death(self, code):
        panic = re.search(rb"Kernel panic - not syncing: ([^\r\n]*)", self._console)
        when = "while the command ran" if self._up else "before it was up"
        if panic:
            reason = panic.group(1).decode(errors="replace")
            return Panic("the machine's kernel panicked %s: %s%s" % (when, reason, self._said()))
        how = "by signal %d" % -code if code < 0 else "with exit code %d" % code
        return Died("the machine ended %s (qemu %s)%s%s" % (when, how, _indented(self._errors), self._said()))

    def _said(self):
        return "" if self._options.verbose else _indented(self._console)


def _read(source):
    try:
        return source.recv(65536) if isinstance(source, socket.socket) else os.read(source.fileno(), 65536)
    except ConnectionError:
        return b""


def _write(data):
    while data:
        data = data[os.write(sys.stdout.fileno(), data):]


def _indented(text, lines=40):
    """The last lines of what the kernel or qemu said, to go after a sentence."""
    return "".join("\n  | " + line for line in text.decode(errors="replace").splitlines()[-lines:] if line.strip())


def check_memory(options, size):
    """The first file system is in the machine's memory twice while it is unpacked."""
    least = 2 * size // (1 << 20) + 256
    if options.memory < least:
        raise VmError("--memory %d: the files of this run need %d MiB at least" % (options.memory, least))
