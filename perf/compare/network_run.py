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
ECCL, UNPLACED, OPENMPI, TUNED, RAW = "eccl", "eccl-unplaced", "openmpi", "openmpi-tuned", "raw"
# Parameters that were the fastest of those tried, by operation and for small messages: algorithms of coll_tuned (2 pairwise, 3
# recursive, 4 ring), two connections for each pair of interfaces where that helped.
BY_OPERATION = {
    "all_reduce": {"coll_tuned_allreduce_algorithm": "4", "btl_tcp_links": "2"},
    "all_gather": {"coll_tuned_allgather_algorithm": "4"},
    "reduce_scatter": {"coll_tuned_reduce_scatter_block_algorithm": "3", "btl_tcp_links": "2"},
    "alltoall": {"coll_tuned_alltoall_algorithm": "2"},
}
SMALL = {"coll_tuned_allreduce_algorithm": "3", "btl_tcp_eager_limit": "131072"}


def tuning(row, operation):
    return {"coll_tuned_use_dynamic_rules": "1", **(SMALL if row.calls > 1 else BY_OPERATION[operation])}


def tuning_in_words():
    sets = [*BY_OPERATION.items(), ("small messages", SMALL)]
    return "; ".join("%s: %s" % (name, ", ".join("%s %s" % item for item in chosen.items())) for name, chosen in sets)


def lab(name, command, *arguments):
    """Its output; SystemExit with its sentence where this machine has no labs."""
    done = subprocess.run([sys.executable, LAB, command, "--name", name, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit("network: %s" % done.stderr.strip())
    return done.stdout


def in_lab(name, *arguments):
    return [sys.executable, LAB, "run", "--name", name, *arguments]


def settings(row):
    fixed = {"LOOP_CPU": "1", "LOOP_ITERATIONS": str(row.iterations)} if row.iterations else {}
    return {"LOOP_CALLS": str(row.calls), **fixed}


def eccl(row, name, label=ECCL):
    transport = {"ECCL_TRANSPORT": "tcp"} if row.hosts == 1 else {}
    places = {"ECCL_PLACE_FLOWS": "0"} if label == UNPLACED else {}
    # Hosts 0 to h/2 - 1 are under the first leaf.
    order = ["sh", "-c", 'RANK=$((RANK %% %d * 2 + RANK / %d)) exec "$0" "$@"' % (2 * (row.hosts // 2,))] if row.interleaved else []
    return Contender(label, lambda folder, *_: in_lab(name, "--ranks", str(row.per_host), "--", *order, os.path.join(folder, "compare_eccl"), "plain"),
                     own_ranks=True, environment=lambda: {**settings(row), **transport, **places})


def raw(row, name, address):
    place = "%s:%d" % (address, random.randrange(20000, 30000))
    return Contender(RAW, lambda folder, *_: in_lab(name, "--ranks", str(row.per_host), "--", os.path.join(folder, "compare_exchange")),
                     own_ranks=True, environment=lambda: {**settings(row), "EXCHANGE_ADDRESS": place})


def openmpi(row, name, addresses, interfaces, label, parameters=dict):
    """mpirun on host 0, daemons on the others by network_agent. Between hosts TCP over all rails, inside a host shared
    memory; on one host alone TCP too, as that is what is compared. `parameters`: more of them."""
    def command(folder, ranks, crowded):
        chosen = {"plm": "rsh", "plm_rsh_agent": os.path.join(HERE, "network_agent"), "plm_rsh_no_tree_spawn": "1",
                  "oob_tcp_if_include": interfaces[0], "pml": "ob1", "btl": "tcp,self" + (",vader" if row.hosts > 1 else ""),
                  "btl_tcp_if_include": ",".join(interfaces), "mpi_yield_when_idle": "1" if crowded else "0", **parameters()}
        program = [os.path.join(folder, "mpi_openmpi")]
        if row.own_nic:
            del chosen["btl_tcp_if_include"]
            program = ["sh", "-c", 'OMPI_MCA_btl_tcp_if_include=e$OMPI_COMM_WORLD_LOCAL_RANK exec "$0"', *program]
        passed = [word for key in ("LOOP_DIRECTORY", "LOOP_OPERATION", "LOOP_SIZES", "LOOP_SECONDS", "WORLD_SIZE", *settings(row))
                  for word in ("-x", key)]
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


def iperf(row, name, addresses):
    """Mbit/s of two iperf3 at once, one from the first to the last host and one back; None without iperf3."""
    if shutil.which("iperf3") is None:
        return None
    ways = [(0, row.hosts - 1, "5201"), (row.hosts - 1, 0, "5202")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    servers = [subprocess.Popen(in_lab(name, "--on", str(to), "--", "iperf3", "-s", "-p", port), **quiet) for _, to, port in ways]
    try:
        for _ in range(20):  # until both servers are there
            clients = [subprocess.Popen(in_lab(name, "--on", str(one), "--", "iperf3", "-J", "-t", "2", "-c", addresses[to], "-p", port),
                                        stdout=subprocess.PIPE, text=True) for one, to, port in ways]
            results = [json.loads(client.communicate()[0]) for client in clients]
            if not any("error" in result for result in results):
                return [result["end"]["sum_received"]["bits_per_second"] / 1e6 for result in results]
        raise SystemExit("network: iperf3: %s" % results)
    finally:
        session.end(servers)


def measure(row, folder, repetitions, peers, limit, say):
    """Records of one figure each, and sentences of what failed."""
    name = "eccl-network-%d" % os.getpid()
    lab(name, "up", *row.fabric, "--owner", str(os.getpid()))
    records, failures = [], []
    try:
        hosts = json.loads(lab(name, "show", "--json"))["hosts"]
        interfaces = list(hosts[0]["addresses"])
        addresses = [host["addresses"]["e0"] for host in hosts]
        if row.interleaved:
            addresses = [address for pair in zip(addresses[:row.hosts // 2], addresses[row.hosts // 2:]) for address in pair]
        contenders = [eccl(row, name)] + ([eccl(row, name, UNPLACED)] if row.paths else []) + ([raw(row, name, addresses[0])] if row.raw else [])
        if peers:
            contenders += [openmpi(row, name, addresses, interfaces, OPENMPI),
                           openmpi(row, name, addresses, interfaces, TUNED, lambda: tuning(row, operation))]
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
                rates = iperf(row, name, addresses)
                records += [{"row": row.name, "contender": "iperf3", "repetition": repetition, "mbit": rates}] if rates else []
            say("%s: repetition %d of %d" % (row.name, repetition + 1, repetitions))
        return records, failures
    finally:
        lab(name, "down")
