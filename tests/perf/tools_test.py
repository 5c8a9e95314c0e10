#!/usr/bin/env python3
"""Runs the perf tools as a user does and checks what they print: tools_test.py <folder of the tools> <case>."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

TOOLS = sys.argv[1]
NUMBER = r"[ ]*(?:\d+\.\d\d|\d+\.\d|\d+|\d\.?\d?e[+-]\d\d)"
# nccl-tests' row: fields of fixed width, two placements. A number that does not fit its column widens it.
PLACEMENT = r"  (?=.{7}  )(%s)  (?=.{6}  )(%s)  (?=.{6}  )(%s)(?:  ([ ]*\d+(?:\.\d+e\+\d\d)?)|    (N/A))" % (NUMBER, NUMBER, NUMBER)
ROW = re.compile(r"^([ ]*\d+)  ([ ]*\d+)  ([ ]*\w+)  ([ ]*\w+)  ([ ]*-?\d+)" + PLACEMENT + PLACEMENT + r"(?:  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?$")
HEADER = [
    "#                                                              out-of-place                       in-place          ",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
]
STAGED = ("alltoall", "alltoallv", "sendrecv")  # no in-place form: #wrong is N/A there
REDUCES = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def check(condition, message, output=""):
    if not condition:
        sys.exit("FAILED: %s\n%s" % (message, output))


def tool(name):
    return os.path.join(TOOLS, name + "_perf")


def run(name, *arguments, env=None, code=0, timeout=120):
    """Output and errors of a run, which must end with `code`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "ECCL_TESTS"))}
    environment.update(env or {})
    done = subprocess.run([tool(name), *map(str, arguments)], env=environment, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(done.returncode == code, "%s %s: exit code %d, not %d" % (name, " ".join(map(str, arguments)), done.returncode, code),
          done.stdout + done.stderr)
    return done.stdout, done.stderr


def table(name, output, ranks, checked=True):
    """The rows of an output whose every other line is as it must be; elements all right."""
    lines = output.split("\n")
    check(re.match(r"# eccl-tests version \d+\.\d+\.\d+ eccl-headers=\d+ eccl-library=\d+$", lines[0]), "first line", output)
    check(lines[1] == "# Collective test starting: %s_perf" % name, "second line", output)
    check(re.match(r"# nThread \d+ nGpus \d+ minBytes \d+ maxBytes \d+ step: \d+\((factor|bytes)\) warmup iters: \d+ iters: \d+ "
                   r"agg iters: \d+ validation: \d+ graph: 0 unalign: \d+$", lines[2]), "third line", output)
    devices = [line for line in lines if line.startswith("#  Rank ")]
    check(len(devices) == ranks, "%d device lines, not %d" % (len(devices), ranks), output)
    for rank, line in enumerate(devices):
        check(re.match(r"#  Rank %2d Group +\d+ Pid +\d+ on +\S+ device +\d+ \[0000:00:00\] \S" % rank, line), line, output)
    at = lines.index(HEADER[0])
    check(lines[at - 1] == "#" and lines[at:at + 3] == HEADER, "table header", output)
    end = next(i for i, line in enumerate(lines) if line.startswith("# Out of bounds values : "))
    rows = []
    for line in lines[at + 3:end]:
        match = ROW.match(line)
        check(match, "row does not have nccl-tests' format: '%s'" % line, output)
        f = [field and field.strip() for field in match.groups()]
        row = dict(size=int(f[0]), count=int(f[1]), type=f[2], op=f[3], root=int(f[4]))
        row["wrong"] = (f[8] or f[9], f[13] or f[14])
        row["busbw"] = (float(f[7]), float(f[12]))
        expected = ("0", "N/A" if name in STAGED else "0") if checked else ("N/A", "N/A")
        check(row["wrong"] == expected, "#wrong is %s, not %s: '%s'" % (row["wrong"], expected, line), output)
        check(row["op"] == ("sum" if name == "sendrecv" else row["op"] if name in REDUCES else "none"), line, output)
        check((row["root"] >= 0) == (name in ROOTED), line, output)
        rows.append(row)
    check(rows, "no rows", output)
    check(lines[end] == "# Out of bounds values : 0 OK", lines[end], output)
    check(re.match(r"# Avg bus bandwidth    : \S+ (OK)?$", lines[end + 1]), lines[end + 1], output)
    check(lines[end + 2:end + 4] == ["#", "# Collective test concluded: %s_perf" % name], "footer", output)
    check(lines[end + 4:] == ["#", "", ""], "end of the output", output)
    return rows


def one_tool(name):
    """All the ways of making ranks, one after another and together."""
    for procs, threads, each in ((2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2)):
        output, errors = run(name, "--procs", procs, "-t", threads, "-g", each, "-b", 8, "-e", "64K", "-f", 8, "-n", 3)
        rows = table(name, output, procs * threads * each)
        check(len(rows) == 5, "%d rows, not 5" % len(rows), output)
        check(errors == "", "something on stderr", errors)


def options():
    ways = (["-m", 3], ["-z", 1], ["-z", 2], ["-z", 3], ["-y", 1], ["-p", 1], ["-u", 1], ["-a", 0], ["-a", 3], ["-c", 3],
            ["-N", 2], ["-G", 4], ["-T", 60], ["-S", 1], ["-w", 0])
    for name in ("all_reduce", "alltoall"):
        for way in ways:
            output, _ = run(name, "--procs", 2, "-t", 2, "-b", 64, "-e", "4K", "-f", 8, "-n", 2, *way)
            if way == ["-S", 1]:
                check("timestamp\n" in output, "no timestamp column", output)
                output = output.replace("           timestamp\n", "\n").replace("           %Y-%m-%d %H:%M:%S\n", "         \n")
                output = output.replace("#wrong\n", "#wrong \n")
                check(re.search(r" \d\d:\d\d:\d\d\n", output), "no time of day in the rows", output)
            if way == ["-G", 4]:
                check("# --cudagraph: " in output, "-G was not answered", output)
            rows = table(name, output, 4)
            check(len(rows) == (6 if way == ["-N", 2] else 3), "number of rows with %s" % way, output)
    output, _ = run("all_reduce", "-t", 2, "-b", 64, "-e", 64, "-c", 0)
    table("all_reduce", output, 2, checked=False)
    output, _ = run("all_reduce", "-t", 2, "-b", 64, "-e", 64, "-M", 1)
    check(re.search(r"\n# Host memory usage    : Initialization .*\| User-Allocated .*\| Collective .*\| Total  ", output), "-M", output)
    run("all_reduce", "-b", 8, "-e", 4, code=6)
    run("all_reduce", "--nonsense", code=6)
    run("all_reduce", "-D", 1, code=5)
    for ranks in (["-t", 2], ["--procs", 2]):
        _, errors = run("broadcast", *ranks, "-r", 2, "-b", 8, "-e", 8, code=6)
        check("--root 2: there are only 2 ranks" in errors, "reason", errors)
    run("all_reduce", "-h")


def types():
    for name in REDUCES:
        output, _ = run(name, "--procs", 2, "-t", 3 if name == "all_reduce" else 1, "-b", 100, "-e", 3000, "-f", 30, "-n", 1,
                        "-d", "all", "-o", "all")
        rows = table(name, output, 6 if name == "all_reduce" else 2)
        check(len(rows) == 2 * 12 * 6, "%d rows of all types and operators" % len(rows), output)
        check(len({(row["type"], row["op"]) for row in rows}) == 72, "types and operators", output)
    for name in ("all_gather", "alltoallv", "sendrecv"):
        rows = table(name, run(name, "-t", 3, "-b", 1000, "-e", 1000, "-n", 1, "-d", "all")[0], 3)
        check([row["type"] for row in rows] == "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2".split(),
              "order of the types")


def roots():
    for name in ROOTED:
        rows = table(name, run(name, "--procs", 3, "-r", "all", "-b", 4096, "-e", 4096, "-n", 1)[0], 3)
        check([row["root"] for row in rows] == [0, 1, 2], "roots of " + name)
        table(name, run(name, "-t", 3, "-r", 2, "-b", 4096, "-e", 4096, "-n", 1)[0], 3)


def json_output():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        arguments = ["--procs", 2, "-t", 2, "-b", 1024, "-e", 4096, "-f", 2, "-n", 4, "-I", 1, "-K", 1, "-J", path]
        secret = {"ECCL_COMM_SECRET": "do not print me"}
        output, _ = run("all_reduce", *arguments, env=secret)
        check(output.startswith("# Writing JSON output to %s\n" % path), "announcement", output)
        run("all_reduce", *arguments, env=secret)  # must not overwrite
        check(sorted(os.listdir(folder)) == ["out.json", "out.json.0"], "files: %s" % os.listdir(folder))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        check("do not print me" not in text, "the secret is in the file")
        data = json.loads(text)
        check(list(data) == ["version", "start_time", "args", "env", "nccl_version", "library", "config", "results",
                             "out_of_bounds", "average_bus_bandwidth", "errors", "end_time"], "keys: %s" % list(data))
        check(data["version"] == 3 and data["args"][1:3] == ["--procs", "2"] and data["errors"] == [], "document")
        config = data["config"]
        check((config["nthreads"], config["ngpus"], config["minimum_bytes"], config["step_factor"]) == (2, 1, 1024, 2), "config")
        check([d["rank"] for d in config["devices"]] == [0, 1, 2, 3] and len({d["pid"] for d in config["devices"]}) == 2, "devices")
        check([r["size"] for r in data["results"]] == [1024, 2048, 4096], "results")
        buses = []
        for result in data["results"]:
            check((result["type"], result["redop"], result["root"], result["actual_iterations"]) == ("float", "sum", "    -1", 4),
                  "result: %s" % result)
            for placement in ("out_of_place", "in_place"):
                m = result[placement]
                check(m["nwrong"] == 0 and m["time"] > 0, "%s: %s" % (placement, m))
                buses.append(m["bus_bw"])
                times = result[placement + "_per_iter"]
                check(len(times["times_us"]) == 4 and times["skipped_iterations"] == 1, "per iteration")
                check(len(times["per_process_max_times_us"]) == 2, "rows of processes")
                slowest = [max(row[i] for row in times["per_process_max_times_us"]) for i in range(4)]
                check(slowest == times["times_us"], "maximum over processes")
                check(times["min_us"] == min(slowest[1:]) and times["max_us"] == max(slowest[1:]), "summary")
        average = data["average_bus_bandwidth"]
        # Bandwidths have six decimals in the file.
        check(abs(average["bandwidth"] - sum(buses) / len(buses)) <= 2e-6 and average["okay"] == "unchecked", "average")
        run("all_reduce", "-J", os.path.join(folder, "no/such/folder.json"), code=2)


def registration():
    for mode in (1, 2):
        for name in ("all_reduce", "all_gather", "alltoallv"):
            table(name, run(name, "--procs", 2, "-R", mode, "-b", 64, "-e", "1M", "-f", 16, "-n", 2)[0], 2)


def tcp():
    for name in ("all_reduce", "alltoallv", "sendrecv"):
        output, _ = run(name, "--procs", 3, "-b", 8, "-e", "2M", "-f", 64, "-n", 3, env={"ECCL_TRANSPORT": "tcp"})
        table(name, output, 3)


def encryption():
    """Where OpenSSL cannot be opened there is no job, and the message says what to do."""
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "libssl.so.3"), "w").close()  # the loader finds it first
        _, errors = run("all_reduce", "-t", 2, "-b", 8, "-e", 8, "-n", 1, code=3,
                        env=dict(ECCL_ENCRYPT="1", LD_LIBRARY_PATH=folder))
        check("ECCL_ENCRYPT=1 needs" in errors and "set ECCL_ENCRYPT=0 on all ranks" in errors, "what is missing", errors)


def launched(environments, *arguments, code=0):
    """One process per environment, at the same time; the output of the first."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "ECCL_TESTS"))}
    processes = [subprocess.Popen([tool("all_reduce"), *map(str, arguments)], env={**base, **environment}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for environment in environments]
    outputs = [process.communicate(timeout=120) for process in processes]
    for process, (output, errors) in zip(processes, outputs):
        check(process.returncode == code, "exit code %d" % process.returncode, output + errors)
    return outputs[0][0]


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def launchers():
    secret = os.urandom(16).hex()
    sizes = ["-b", 8, "-e", 4096, "-f", 8, "-n", 2]
    with tempfile.TemporaryDirectory() as private:
        here = {"XDG_RUNTIME_DIR": private}
        mpi = [{"OMPI_COMM_WORLD_RANK": str(r), "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3", **here} for r in range(3)]
        table("all_reduce", launched(mpi, *sizes), 3)
        pmi = [{"PMI_RANK": str(r), "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", **here} for r in range(2)]
        table("all_reduce", launched(pmi, "-t", 2, *sizes), 4)
        check(os.listdir(private) == [], "left behind: %s" % os.listdir(private))
    slurm = [{"SLURM_PROCID": str(r), "SLURM_NTASKS": "2", "ECCL_COMM_ID": "127.0.0.1:%d", "ECCL_COMM_SECRET": secret} for r in range(2)]
    port = free_port()
    for environment in slurm:
        environment["ECCL_COMM_ID"] %= port
    table("all_reduce", launched(slurm, *sizes), 2)
    port = free_port() - 1
    torch = [{"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "ECCL_COMM_SECRET": secret} for r in range(2)]
    table("all_reduce", launched(torch, *sizes), 2)
    # Nothing says where to meet, and --procs under a launcher.
    _, errors = run("all_reduce", env={"PMI_RANK": "0", "PMI_SIZE": "2"}, code=6)
    check("ECCL_COMM_ID" in errors, "the error does not say what to set", errors)
    run("all_reduce", "--procs", 2, env={"PMI_RANK": "0", "PMI_SIZE": "2"}, code=6)


def split():
    output, _ = run("all_reduce", "--procs", 4, "-b", 1024, "-e", 1024, "-n", 2, env={"NCCL_TESTS_SPLIT": "MOD 2"})
    table("all_reduce", output, 4)
    groups = re.findall(r"#  Rank +\d+ Group +(\d+) ", output)
    check(groups == ["0", "1", "0", "1"], "groups", output)
    output, _ = run("all_gather", "--procs", 3, "-t", 2, "-b", "4K", "-e", "4K", "-n", 2, env={"ECCL_TESTS_SPLIT": "DIV 2"})
    rows = table("all_gather", output, 6)
    check(rows[0]["count"] == 256, "groups of different size: 4096 bytes of floats over 4 ranks", output)
    run("all_reduce", "--procs", 2, env={"NCCL_TESTS_SPLIT": "XOR 1"}, code=6)
    run("all_reduce", env={"NCCL_TESTS_MIN_BW": "fast"}, code=6)
    output, _ = run("all_reduce", "-t", 2, "-b", 8, "-e", 8, env={"NCCL_TESTS_DEVICE": "5"})
    check(re.findall(r" device +(\d+) ", output) == ["5", "6"], "devices", output)
    output, _ = run("all_reduce", "-t", 2, "-b", 8, "-e", 8, env={"NCCL_TESTS_MIN_BW": "1e6"}, code=7)
    check(re.search(r"# Avg bus bandwidth    : \S+ FAILED\n", output), "bandwidth check", output)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def start_forever(*arguments):
    """A run without end, once its first row is out; nearly all of the time in calls of 128 KiB."""
    process = subprocess.Popen([tool("all_reduce"), "--procs", "3", "-b", "128K", "-e", "128K", "-N", "0", "-n", "50", *arguments],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in process.stdout:
        if ROW.match(line.rstrip("\n")):
            return process, children(process.pid)
    sys.exit("FAILED: no row appeared\n" + process.stderr.read())


def failures():
    process, ranks = start_forever()
    started = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    check(process.returncode == 128 + signal.SIGKILL, "exit code %d" % process.returncode, errors)
    check("process 1 (pid %d, rank 1) died by signal 9 (Killed)" % ranks[1] in errors, "who died", errors)
    check(time.monotonic() - started < 8, "the others did not notice by themselves", errors)
    check("process 0" in errors and "process 2" in errors, "the others' errors", errors)
    # The children end with their parent.
    process, ranks = start_forever()
    process.kill()
    process.communicate(timeout=60)
    limit = time.monotonic() + 20
    while any(os.path.exists("/proc/%d" % rank) for rank in ranks):
        check(time.monotonic() < limit, "children outlive their parent")
        time.sleep(0.05)


def timeout():
    process, ranks = start_forever("-T", "2")
    os.kill(ranks[2], signal.SIGSTOP)
    _, errors = process.communicate(timeout=60)
    check(process.returncode == 4, "exit code %d" % process.returncode, errors)
    check(re.search(r"Test timeout \(2s\): not complete: (waiting for the other ranks at )?ecclAllReduce of 131072 bytes \(float sum\), (in|out of) place, rank [01]\n", errors),
          "what hung", errors)


def links():
    """What is reported after the table adds up on both sides, whatever the ranks are."""
    row = re.compile(r"^# +(\d+) +(\S+) +(\S+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.e+-]+) +(\d+) +(\d+)  +(?:not used|\S+ +\S+)$", re.M)
    ways = ((("--procs", 2), {"ECCL_TRANSPORT": "tcp"}, 2), (("--procs", 2, "-t", 2), {}, 4), (("-t", 2), {}, 2),
            (("--procs", 2, "-g", 2), {"NCCL_TESTS_SPLIT": "MOD 2"}, 4))
    for ranks, env, count in ways:
        output, _ = run("all_reduce", *ranks, "-b", "1M", "-e", "1M", "-n", 5, "--report_links", 1, env=env)
        report = output[output.index("# Links: "):]
        found = row.findall(report)
        check({int(f[0]) for f in found} == set(range(count)), "ranks with links", output)
        sums = [sum(float(f[column]) for f in found) for column in (4, 5)]
        check(sums[0] > 5 and abs(sums[0] - sums[1]) < 0.02 * sums[0], "MB sent and received: %s" % sums, output)
        for rank in range(count):
            share = sum(float(f[6]) for f in found if int(f[0]) == rank)
            check(99.5 < share < 100.5, "shares of rank %d are %s %% together" % (rank, share), output)
        output = output[:output.index("#\n# Links: ")] + "#\n\n"
        table("all_reduce", output, count)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        run("all_reduce", "--procs", 2, "-b", "1M", "-e", "1M", "-n", 5, "--report_links", 1, "-J", path)
        with open(path) as file:
            listed = json.load(file)["links"]
        check({link["rank"] for link in listed} == {0, 1} and sum(link["sent_bytes"] for link in listed) > 5e6, "JSON: %s" % listed)


def consistency():
    """Each size several times: the median run is shown, and the others relative to it."""
    ratio = r"  +(\d\S*)  +(\d\S*)"
    row = re.compile(r"^ +(\d+) +\d+ +float +sum +-1" + PLACEMENT + ratio + PLACEMENT + ratio + "$", re.M)
    for ranks in (("--procs", 2), ("-t", 2), ("-g", 2)):
        output, _ = run("all_reduce", *ranks, "-b", "1K", "-e", "64K", "-f", 8, "-n", 4, "--consistency", 5)
        rows = row.findall(output)
        check([int(f[0]) for f in rows] == [1024, 8192, 65536], "rows", output)
        for fields in rows:
            for slowest, fastest in (fields[6:8], fields[13:15]):
                check(float(slowest) >= 1 >= float(fastest) > 0, "slowest %s, fastest %s" % (slowest, fastest), output)
    run("all_reduce", "--consistency", 5, "-I", 1, code=6)


CASES = dict(options=options, types=types, roots=roots, json=json_output, registration=registration, tcp=tcp, launchers=launchers,
             split=split, failures=failures, timeout=timeout, links=links, consistency=consistency,
             encryption=encryption)
case = sys.argv[2]
CASES[case]() if case in CASES else one_tool(case)
print("passed")
