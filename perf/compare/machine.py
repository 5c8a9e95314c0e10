"""Where a run's figures come from: the machine, and the versions of what ran on it."""

import datetime
import json
import os
import platform
import re
import resource
import subprocess
import time

from build import ROOT


def first_line(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    except FileNotFoundError:
        return "unknown"
    lines = done.stdout.strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]) if lines else "unknown"


def content(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def find(pattern, text, default="unknown"):
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1).strip() if match else default


def memory_speed(folder):
    """Of one process, and of one on every core at the same time; GB/s of 10^9, read and written."""
    def measured(copies):
        processes = [subprocess.Popen([os.path.join(folder, "compare_bandwidth")], stdout=subprocess.PIPE)
                     for _ in range(copies)]
        lines = [json.loads(process.communicate()[0]) for process in processes]
        return ["%.1f" % sum(line[name] for line in lines) for name in ("memcpy", "triad")]

    cores = len(os.sched_getaffinity(0))
    return "memcpy %s, triad %s GB/s; %d processes at once: memcpy %s, triad %s" % (*measured(1), cores, *measured(cores))


def processor(info):
    """By /proc/cpuinfo. In virtual machines the name alone tells little."""
    told = [(name, find(r"^%s\s*:(.*)" % field, info, "")) for name, field in (("family", "cpu family"), ("model", "model"))]
    return " ".join([find(r"^model name\s*:(.*)", info, platform.machine())] + ["%s %s" % one for one in told if one[1]])


def description(folder, contenders):
    cpu = content("/proc/cpuinfo")
    kib = int(find(r"^MemTotal:\s+(\d+)", content("/proc/meminfo"), "0"))
    virtual = "virtual machine" if re.search(r"^flags.*\bhypervisor\b", cpu, re.MULTILINE) else "no virtual machine seen"
    settings = " ".join("%s=%s" % item for item in sorted(os.environ.items())
                        if item[0].startswith("ECCL_") and "SECRET" not in item[0])
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": "%s, %d cores, %s" % (processor(cpu), len(os.sched_getaffinity(0)), virtual),
        "memory": "%.1f GiB; %s" % (kib / 2**20, memory_speed(folder)),
        "system": "Linux %s, transparent huge pages: %s" % (
            platform.release(), find(r"\[(\w+)\]", content("/sys/kernel/mm/transparent_hugepage/enabled"))),
        "load before": "%.2f" % os.getloadavg()[0],
        "compiler": first_line("cc", "--version"),
        "ECCL": "%s%s" % (first_line("git", "describe", "--always", "--dirty"), settings and ", " + settings),
        **{contender.name: first_line(*contender.version) for contender in contenders if contender.version},
    }


class Neighbours:
    """What else used the cores since this was made: with much of that, the figures say little."""

    def __init__(self):
        self.begun = time.monotonic()
        self.before = self._seconds()

    @staticmethod
    def _seconds():
        """Of the cores for processes that are not ours; taken by the hypervisor."""
        fields = [int(field) / os.sysconf("SC_CLK_TCK") for field in content("/proc/stat").splitlines()[0].split()[1:]]
        user, nice, system, _, _, interrupts, soft_interrupts, stolen = fields[:8]
        ours = sum(usage.ru_utime + usage.ru_stime for usage in
                   (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        return user + nice + system + interrupts + soft_interrupts - ours, stolen

    def __str__(self):
        passed = time.monotonic() - self.begun
        others, stolen = ((now - before) / passed for now, before in zip(self._seconds(), self.before))
        return "other processes used %.2f cores, the hypervisor took %.2f" % (max(others, 0), stolen)
