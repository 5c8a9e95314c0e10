"""Starts the ranks of a job on the hosts of a lab, hands on what they print, and ends them all when one fails."""

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time

from . import cgroups, system
from .errors import LabError

TIMED_OUT = 124  # as timeout(1) has it
TERMINATION = 3  # seconds between SIGTERM and SIGKILL
POLL = 0.02
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(Exception):
    """All ranks have to end; the argument is the exit code, and why."""


def environments(lab, hosts, per_host, rail):
    """(host, variables) of each rank. Rank 0 listens on its host's address on that rail."""
    counts = [per_host or count for count in lab.fabric.ranks[:hosts]]
    if lab.fabric.nic_per_rank and max(counts) > len(lab.fabric.rails):
        raise LabError("%d ranks on a host, but lab %s has a NIC for each of %d" % (max(counts), lab.name, len(lab.fabric.rails)))
    # Below the ports that the kernel gives away; another for every job, so that two can run.
    meeting = "%s:%d" % (lab.plan.address(0, rail), 20000 + secrets.randbelow(10000))
    common = {"WORLD_SIZE": sum(counts), "ECCL_COMM_ID": meeting, "ECCL_COMM_SECRET": secrets.token_hex(16), "LAB_NAME": lab.name}
    ranks = []
    for host, count in enumerate(counts):
        for local in range(count):
            own = {**common, "RANK": len(ranks), "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": count}
            if lab.fabric.nic_per_rank:
                own["ECCL_SOCKET_IFNAME"] = "=e%d" % local
            ranks.append((host, own))
    return ranks


def on_host(lab, host, command):
    """The command line that runs it there, under the host's name, with the /proc of its own process namespace, and with NICs that
    tell their rates: a veth says 10 Gbit/s. Mounts are seen by the command alone."""
    rates = {rail: max(1, round(each.rate)) for rail, each in enumerate(lab.fabric.rails) if each.rate}
    tell = "".join("echo %d >/mnt/%d && mount --bind /mnt/%d /sys/class/net/e%d/speed && " % (rate, rail, rail, rail)
                   for rail, rate in rates.items())
    script = "mount -t tmpfs rates /mnt && %sumount -l /mnt && " % tell if rates else ""
    line = ["ip", "netns", "exec", lab.plan.hosts[host], "unshare", "--uts", "--mount-proc", "sh", "-c",
            script + 'hostname "$0" && exec "$@"', lab.plan.hosts[host], *command]
    group = cgroups.members(lab.name, host)  # before `ip netns exec`, which hides /sys/fs/cgroup
    return ["sh", "-c", 'echo 0 >"$0" && exec "$@"', group, *line] if group else line


class Job:
    def __init__(self):
        self.ranks = []  # of subprocess.Popen
        self.stop = 0  # the number of a signal to the tool; a handler that raised could come between two halves of a start
        self.selector = selectors.DefaultSelector()
        self.partial = {}

    def start(self, lab, ranks, command, folder):
        for number, (host, variables) in enumerate(ranks):
            environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
            line = on_host(lab, host, command)
            if not variables:  # a command on a host, which may be a shell
                self.ranks.append(subprocess.Popen(line))
            elif folder is not None:
                with open(os.path.join(folder, str(number)), "w") as file:
                    self._start(line, environment, file)
            else:
                rank = self._start(line, environment, subprocess.PIPE)
                os.set_blocking(rank.stdout.fileno(), False)
                self.selector.register(rank.stdout, selectors.EVENT_READ, number)
                self.partial[number] = b""

    def _start(self, line, environment, output):
        rank = subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT, start_new_session=True)
        self.ranks.append(rank)
        return rank

    def wait(self, timeout, patience):
        """Until all have ended; Ended with the first exit code other than 0, when the others have had their time."""
        deadline = time.monotonic() + timeout if timeout else None
        failure, seen = None, set()
        while True:
            self.hand_on(POLL)
            if self.stop:
                raise Ended(128 + self.stop, "signal %d" % self.stop, "all ranks")
            for number, rank in enumerate(self.ranks):
                code = rank.poll()
                if code and number not in seen:
                    seen.add(number)
                    code = code if code > 0 else 128 - code
                    how = "exit code %d" % code if rank.returncode > 0 else "signal %d" % -rank.returncode
                    if failure is None:
                        failure, deadline = (code, "rank %d ended with %s" % (number, how)), time.monotonic() + patience
            left = [str(number) for number, rank in enumerate(self.ranks) if rank.returncode is None]
            if not left:
                break
            if deadline is not None and time.monotonic() > deadline:
                which = "rank%s %s" % ("s" if len(left) > 1 else "", ", ".join(left))
                raise Ended(*(failure or (TIMED_OUT, "not done after %g s" % timeout)), which)
        if failure:
            raise Ended(*failure, "")

    def hand_on(self, seconds):
        """What the ranks have printed, whole lines, each with its rank before it."""
        if not self.selector.get_map():
            time.sleep(seconds)
            return False
        events = self.selector.select(seconds)
        for key, _ in events:
            data = os.read(key.fd, 1 << 16)
            lines = (self.partial[key.data] + data).split(b"\n")
            if not data:
                self.selector.unregister(key.fileobj)
                lines = [line for line in lines if line] + [b""]
            self.partial[key.data] = lines.pop()
            try:
                for line in lines:
                    sys.stdout.buffer.write(b"[%d] %s\n" % (key.data, line))
                sys.stdout.flush()
            except BrokenPipeError:  # whoever read on has ended
                self.stop = signal.SIGPIPE
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return bool(events)

    def terminate(self):
        for rank in self.ranks:
            if rank.poll() is None:
                rank.terminate()
                with contextlib.suppress(ProcessLookupError):  # a command on a host is in our group
                    os.killpg(rank.pid, signal.SIGTERM)
                    os.killpg(rank.pid, signal.SIGCONT)  # one that is stopped would not hear of it
        deadline = time.monotonic() + TERMINATION
        while time.monotonic() < deadline and any(rank.poll() is None for rank in self.ranks):
            self.hand_on(POLL)


def run(lab, ranks, command, folder, timeout, patience, say):
    """The exit code: 0, that of the first rank that failed, 124 after the timeout, 128 + N after signal N."""
    job, code = Job(), 0

    def stop(number, _):
        if ranks[0][1] or number != signal.SIGINT:  # the terminal's is for a single command itself, which may be a shell
            job.stop = number
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        with system.process_namespace() as end_rest:
            try:
                job.start(lab, ranks, command, folder)
                job.wait(timeout, patience)
            except Ended as ended:
                code, why, ending = ended.args
                if ranks[0][1]:  # the exit code of a single command says enough
                    say("%s%s" % (why, "; ending %s" % ending if ending else ""))
            finally:
                job.terminate()
                end_rest()  # also what ranks have started and left behind
                for rank in job.ranks:
                    rank.wait()
                while job.hand_on(0) and job.selector.get_map():
                    pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code
