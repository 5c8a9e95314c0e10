"""Measures a row in a lab of its own: every contender in turn, in each repetition."""

import json
import os
import random
import shutil
import subprocess
import sys

import session
from build import ROOT
from contenders import HERE, Contender

LAB = os.path.join(ROOT, "tests/lab/lab")
ECCL, OPENMPI, TUNED, RAW = "eccl", "openmpi", "openmpi-tuned", "raw"
# What was fastest of what was tried on fabrics of several rails.
TUNING = {}


def lab(name, command, *arguments):
    """Its output; SystemExit with its sentence where this machine has no labs."""
    done = subprocess.run([sys.executable, LAB, command, "--name", name, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit("network: %s" % done.stderr.strip())
    return done.stdout


def in_lab(name, *arguments):
    return [sys.executable, LAB, "run", "--name", name, *arguments]


def settings(row):
    given = {"LOOP_CPU": "1"} if row.iterations else {}
    return {**given, **({"LOOP_ITERATIONS": str(row.iterations)} if row.iterations else {})}


def eccl(row, name):
    transport = {"ECCL_TRANSPORT": "tcp"} if row.hosts == 1 else {}
    return Contender(ECCL, lambda folder, *_: in_lab(name, "--ranks", str(row.per_host), "--", os.path.join(folder, "compare_eccl"), "plain"),
                     own_ranks=True, environment=lambda: {**settings(row), **transport})


def raw(row, name, address):
    place = "%s:%d" % (address, random.randrange(20000, 30000))
    return Contender(RAW, lambda folder, *_: in_lab(name, "--ranks", str(row.per_host), "--", os.path.join(folder, "compare_exchange")),
                     own_ranks=True, environment=lambda: {**settings(row), "EXCHANGE_ADDRESS": place})


def openmpi(row, name, addresses, interfaces, label, parameters):
    """mpirun on host 0, daemons on the others by network_agent. Between hosts TCP over all rails, inside a host shared
    memory; on one host alone TCP too, as that is what is compared."""
    def command(folder, ranks, crowded):
        chosen = {"plm": "rsh", "plm_rsh_agent": os.path.join(HERE, "network_agent"), "plm_rsh_no_tree_spawn": "1",
                  "oob_tcp_if_include": interfaces[0], "pml": "ob1", "btl": "tcp,self" + (",vader" if row.hosts > 1 else ""),
                  "btl_tcp_if_include": ",".join(interfaces), "mpi_yield_when_idle": "1" if crowded else "0", **parameters}
        program = [os.path.join(folder, "mpi_openmpi")]
        if row.own_nic:
            del chosen["btl_tcp_if_include"]
            program = ["sh", "-c", 'OMPI_MCA_btl_tcp_if_include=e$OMPI_COMM_WORLD_LOCAL_RANK exec "$0"', *program]
        passed = [word for key in os.environ | settings(row) if key.startswith("LOOP_") for word in ("-x", key)]
        passed += [word for key in ("LOOP_DIRECTORY", "LOOP_OPERATION", "LOOP_SIZES", "LOOP_SECONDS", "WORLD_SIZE") for word in ("-x", key)]
        return in_lab(name, "--on", "0", "--", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks),
                      "--host", ",".join("%s:%d" % (address, row.per_host) for address in addresses), *passed,
                      *(word for item in chosen.items() for word in ("--mca", *item)), *program)
    return Contender(label, command, own_ranks=True, environment=lambda: {**settings(row), "LAB_NAME": name})


def sent(hosts, interfaces):
    """Bytes that all hosts have sent so far, by rail: what /sys/class/net/*/statistics says."""
    total = dict.fromkeys(interfaces, 0)
    for host in hosts:
        shown = subprocess.run(["ip", "-n", host["name"], "-s", "-j", "link", "show"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for device in json.loads(shown):
            if device["ifname"] in total:
                total[device["ifname"]] += device["stats64"]["tx"]["bytes"]
    return [total[interface] for interface in interfaces]


def iperf(row, name, address):
    """Mbit/s each way, of one stream in each direction at once; None without iperf3."""
    if shutil.which("iperf3") is None:
        return None
    server = subprocess.Popen(in_lab(name, "--on", str(row.hosts - 1), "--", "iperf3", "-s", "-1", "-B", address),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(50):  # until the server is there
            done = subprocess.run(in_lab(name, "--on", "0", "--", "iperf3", "-J", "--bidir", "-t", "2", "-c", address), stdout=subprocess.PIPE, text=True)
            result = json.loads(done.stdout)
            if "error" not in result:
                return [result["end"][key]["bits_per_second"] / 1e6 for key in ("sum_received", "sum_received_bidir_reverse")]
        raise SystemExit("network: iperf3: %s" % result["error"])
    finally:
        session.end([server])


def measure(row, folder, repetitions, peers, limit, say):
    """Records of one figure each, and sentences of what failed."""
    name = "eccl-network-%d" % os.getpid()
    lab(name, "up", *row.fabric, "--owner", str(os.getpid()))
    records, failures = [], []
    try:
        hosts = json.loads(lab(name, "show", "--json"))["hosts"]
        interfaces = list(hosts[0]["addresses"])
        addresses = [host["addresses"]["e0"] for host in hosts]
        contenders = [eccl(row, name)] + ([raw(row, name, addresses[0])] if row.raw else [])
        if peers:
            contenders += [openmpi(row, name, addresses, interfaces, OPENMPI, {}), openmpi(row, name, addresses, interfaces, TUNED, TUNING)]
        for repetition in range(repetitions):
            first = repetition % len(contenders)  # nobody always comes after the same neighbour
            for operation in row.operations:
                for contender in contenders[first:] + contenders[:first]:
                    before = sent(hosts, interfaces)
                    outcome = session.launch(contender, folder, operation, row.ranks(), session.fitting(operation, row.ranks(), row.sizes),
                                             row.seconds, limit)
                    rails = [after - old for old, after in zip(before, sent(hosts, interfaces))]
                    records += [{"row": row.name, "operation": operation, "contender": contender.name, "repetition": repetition,
                                 "rail_bytes": rails, **figure} for figure in outcome.figures]
                    if outcome.reason:
                        what = "%s, %s, %s: %s" % (row.name, operation, contender.name, outcome.reason)
                        say(what)
                        failures.append(what)
            if row.iperf:
                rates = iperf(row, name, addresses[-1])
                records += [{"row": row.name, "contender": "iperf3", "repetition": repetition, "mbit": rates}] if rates else []
            say("%s: repetition %d of %d" % (row.name, repetition + 1, repetitions))
        return records, failures
    finally:
        lab(name, "down")
