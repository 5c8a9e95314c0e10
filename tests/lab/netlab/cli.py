"""The command line of the lab."""

import argparse
import json
import os
import signal
import sys

from . import fabric, faults, lab, ranks, show, system
from .errors import LabError

ABOUT = """A cluster of hosts on this machine, for trying and testing what crosses a network. Hosts are network namespaces with a name
of their own, NICs are veths, switches are bridges and routers in namespaces. docs/lab.md has examples. Needs root.

  lab up two-rails                        a fabric that ships, or a file
  lab run -- PROGRAM ARGUMENTS...         one job over all hosts
  lab fault down 2:0                      host 2, rail 0
  lab down"""
EXIT = "Exit code 2: the lab could not do it, and says why."


def say(text):
    print("lab: " + text, file=sys.stderr, flush=True)


def positive(text):
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("%s: it has to be above 0" % text)
    return value


def counted(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("%s: it has to be 1 or more" % text)
    return value


def parser():
    top = argparse.ArgumentParser(prog="lab", description=ABOUT, epilog=EXIT, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, text, **options):
        one = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".",
                                  formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        one.add_argument("--name", default=os.environ.get("LAB_NAME", "eccl-lab"),
                         help="of the lab; several can be up (LAB_NAME, or eccl-lab)")
        return one

    up = command("up", "make a lab: of a fabric that ships (%s), of a file, or as the options say" % ", ".join(fabric.shipped()),
                 epilog="Keys of a file: %s; of each rail: %s. docs/lab.md says what they mean." % (
                     ", ".join(fabric.KEYS), ", ".join(fabric.RAIL_KEYS)))
    up.add_argument("fabric", nargs="?", metavar="FABRIC")
    short = up.add_argument_group("instead of FABRIC")
    short.add_argument("--hosts", type=int, help="how many")
    short.add_argument("--ranks", type=int, help="on each host (1)")
    short.add_argument("--rails", type=int, help="NICs of each host, each on a rail of its own (1)")
    for key, text in (("rate", "Mbit/s of every NIC (as fast as the machine)"), ("delay_ms", "one way, of every NIC (0)"),
                      ("loss_percent", "at every NIC, each way (0)")):
        short.add_argument("--" + key.replace("_", "-"), type=float, help=text)
    short.add_argument("--mtu", type=int, help="of every NIC (1500)")
    up.add_argument("--owner", type=int, metavar="PID", help="the lab ends with that process: the next `lab up` or `lab down` removes it")

    run = command("run", "run COMMAND as the ranks of a job; RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, ECCL_COMM_ID and "
                  "ECCL_COMM_SECRET say who is who",
                  epilog="The first rank that fails ends the others. Exit code: that of the first rank that failed (128 + N after signal N); "
                  "124 after --timeout.")
    run.add_argument("--fabric", metavar="FABRIC", help="a lab of its own for this job, as `lab up FABRIC` makes it")
    run.add_argument("--hosts", type=counted, help="on the first so many hosts (all)")
    run.add_argument("--ranks", type=counted, help="so many on each host (as the fabric says)")
    run.add_argument("--on", type=int, metavar="HOST", help="once, on this host, and without these variables")
    run.add_argument("--rail", type=int, default=0, help="rank 0 waits for the others at its host's address on this rail (0)")
    run.add_argument("--output", metavar="DIR", help="what rank R prints goes into the file R there, instead of having [R] before each line")
    run.add_argument("--timeout", type=positive, metavar="S", help="end all ranks after so many seconds")
    run.add_argument("--patience", type=positive, metavar="S", default=5,
                     help="when a rank has failed, the others have so many seconds to end by themselves (5)")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND...")

    lines = ["  %-30s %s" % (faults.usage(kind), one.help) for kind, one in faults.KINDS.items()]
    fault = command("fault", "let something fail while a job runs",
                    epilog="\n".join([*lines, "  %-30s %s" % ("clear [TARGET]", "undo all faults, or those made at that target"), "",
                                      "LINK is HOST:RAIL or torT:spineS; a host, torT or spineS stands for all links it has."]))
    fault.add_argument("kind", choices=[*faults.KINDS, "clear"], metavar="KIND")
    fault.add_argument("target", nargs="?", metavar="TARGET")
    fault.add_argument("values", nargs="*", metavar="VALUE")

    down = command("down", "remove a lab: its processes, namespaces and control groups, also of one that is half made")
    down.add_argument("--all", action="store_true", help="all labs of this tool")
    shown = command("show", "what is up: hosts, addresses, links, rates and faults")
    shown.add_argument("--json", action="store_true", help="for programs")
    return top


def fabric_of(options):
    keys = ("hosts", "ranks", "rails", "rate", "mtu", "delay_ms", "loss_percent")
    given = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    if options.fabric is not None:
        if given:
            raise LabError("--%s is said by the fabric %s; leave one of them out" % (next(iter(given)), options.fabric))
        return fabric.load(options.fabric)
    rails = given.pop("rails", 1)
    whole = {key: int(value) if float(value).is_integer() else value for key, value in given.items()}
    rail = {key: whole.pop(key) for key in fabric.RAIL_KEYS if key in whole}
    return fabric.fabric_of({**whole, "rails": [rail] * max(rails, 0)}, "the command line")


def make(name, wanted, owner):
    """Makes it, or removes what it has made."""
    if owner is not None and system.birth(owner) is None:
        raise LabError("--owner %d is no process" % owner)
    lab.remove_orphans(say)
    with lab.locked(name):
        old = lab.Lab.load(name)
        if old is not None and old.ready:
            raise LabError("lab %s is up; take it down first (lab down --name %s), or choose another --name" % (name, name))
        if old is not None:
            lab.remove(name)
            say("lab %s was left half made: removed" % name)
        new = lab.Lab(name, wanted, [owner, system.birth(owner)] if owner is not None else None)
        new.begin()
        try:
            new.make()
            faults.settle_relay(new, [link for link in new.plan.links if link.host is not None and faults.relayed(link.rail)])
            new.ready = True
            new.save()
        except BaseException:
            lab.remove(name)
            raise
    for note in new.notes:
        say("note: " + note)
    return new


def up(options):
    made = make(options.name, fabric_of(options), options.owner)
    say("lab %s is up: %s" % (made.name, show.summary(made)))


def run(options):
    command = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise LabError("lab run needs a command: lab run -- PROGRAM ARGUMENTS...")
    if options.output is not None and not os.path.isdir(options.output):
        raise LabError("--output %s is no folder; make it first" % options.output)
    own = options.fabric is not None
    where = make(options.name, fabric.load(options.fabric), os.getpid()) if own else lab.Lab.named(options.name)
    try:
        hosts, rails = len(where.plan.hosts), len(where.fabric.rails)
        for value, what, most in ((options.hosts, "--hosts", hosts), (options.on, "--on", hosts - 1), (options.rail, "--rail", rails - 1)):
            if value is not None and not 0 <= value <= most:
                raise LabError("%s %d: lab %s has %d hosts and %d rails, counted from 0" % (what, value, where.name, hosts, rails))
        job = ([(options.on, {})] if options.on is not None else
               ranks.environments(where, options.hosts or hosts, options.ranks, options.rail))
        return ranks.run(where, job, command, options.output, options.timeout, options.patience, say)
    finally:
        if own:
            with lab.locked(where.name):
                lab.remove(where.name)


def fault(options):
    with lab.locked(options.name):
        there = lab.Lab.named(options.name)
        if options.kind == "clear":
            if options.values:
                raise LabError("fault clear takes at most a target")
            faults.clear(there, options.target)
        elif options.target is None:
            raise LabError("fault %s takes: %s" % (options.kind, faults.usage(options.kind)))
        else:
            faults.make(there, options.kind, options.target, options.values)


def down(options):
    lab.remove_orphans(say)
    for name in lab.names() if options.all else [options.name]:
        with lab.locked(name):
            say("lab %s is down" % name if lab.remove(name) else "no lab %s was up" % name)


def display(options):
    if options.json:
        print(json.dumps(show.document(lab.Lab.named(options.name)), indent=1))
    else:
        print("\n".join(show.lines(lab.Lab.named(options.name))))


def main(arguments):
    options = parser().parse_args(arguments)
    try:
        lab.check_name(options.name)
        system.need_privileges()
        return {"up": up, "run": run, "fault": fault, "down": down, "show": display}[options.command](options) or 0
    except LabError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read on has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
