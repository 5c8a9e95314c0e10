#!/bin/sh
# Runs eccl_sched (the first argument) the way people do, and checks exit codes and answers.
set -eu
export ECCL_SPEEDS_FILE=none  # what is chosen is the same on every machine
sched=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# check EXIT_CODE PATTERN ARGUMENTS...: runs eccl_sched; PATTERN must occur in what it prints.
check() {
  expected=$1 pattern=$2
  shift 2
  code=0
  "$sched" "$@" >"$folder/out" 2>&1 <"$folder/in" || code=$?
  if [ "$code" != "$expected" ] || ! grep -qE -- "$pattern" "$folder/out"; then
    echo "eccl_sched $*: exit code $code (expected $expected), expected '$pattern' in:"
    cat "$folder/out"
    exit 1
  fi
}

: >"$folder/in"
check 0 '^AllReduce +ring$' list
check 0 '^USAGE' --help
check 2 'USAGE'
check 2 'no command' frobnicate
check 2 '--ranks is missing' verify --collective AllReduce --algorithm ring
check 2 'no algorithm' verify --collective AllReduce --algorithm wring --ranks 4
check 2 'not a number' verify --collective AllReduce --algorithm ring --ranks 4x
check 2 'not a rank; there are 4' dump --collective AllReduce --algorithm ring --ranks 4 --rank 4
check 2 'cannot be opened: No such file' verify "$folder/none"
check 0 'in place: ok, minSlots 2, 28 moves' verify --collective allreduce --algorithm ring --ranks 4
check 0 'AlltoAllv relay, 5 ranks, 2 channels, out of place: ok' verify --all --ranks 5 --channels 2

# Hierarchical schedules are looked at on several numbers of hosts, or on those one asks for.
check 0 'AllReduce hierarchical on 2 hosts, 6 ranks, 1 channel, in place: ok' verify -c AllReduce -a hierarchical -n 6
check 0 'AllReduce hierarchical on 5 hosts, 6 ranks, 1 channel, in place: ok' verify -c AllReduce -a hierarchical -n 6
check 0 'AllReduce hierarchical on 3 hosts, 6 ranks, 1 channel, in place: ok' verify -c AllReduce -a hierarchical -n 6 --hosts 3
if grep -q 'on 2 hosts' "$folder/out"; then echo "--hosts 3 looks at 2 hosts" && exit 1; fi
check 0 'AlltoAll rail on 2 hosts, 6 ranks, 1 channel, out of place: ok' verify -c AlltoAll -a rail -n 6
check 0 'AllGather hierarchical on 3 hosts, 6 ranks, 1 channel, in place: ok' verify -c AllGather -a hierarchical -n 6
check 2 '--hosts 7 are more than 6 ranks' verify -c AllReduce -a hierarchical -n 6 --hosts 7

# What is chosen without a model and with one, and what is wrong with one.
check 0 'AllReduce of 65536 bytes among 8 ranks on 1 host takes direct, by the default cost model' explain -c allreduce -n 8 -b 64K
check 0 '^direct +[0-9.]+ +1.00x .*; chosen$' explain -c AllReduce -n 8 -b 64K
check 0 '^ring +[0-9.]+ ' explain -c AllReduce -n 8 -b 64K --hosts 2 --cores 2 --plain
# A topology says how fast the ports of hosts are, and how many cores these have.
for speed in 100 400000; do
  cat >"$folder/$speed.xml" <<EOF
<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <nic><net name="eth0" dev="0" speed="$speed" port="1" latency="0" maxconn="1"/></nic>
  </cpu>
</system>
EOF
done
if ECCL_TOPO_FILE="$folder/100.xml" "$sched" explain -c AllReduce -n 6 -b 1M --hosts 2 >"$folder/slow" 2>&1; then
  ECCL_TOPO_FILE="$folder/400000.xml" "$sched" explain -c AllReduce -n 6 -b 1M --hosts 2 >"$folder/fast"
  grep -q '100.xml; rank 0 is on NUMA node 0, 16 cores, port host0/eth0 (0.0125 GB/s)' "$folder/slow"
  slow=$(sed -n 's/.* takes \([^,]*\),.*/\1/p' "$folder/slow") fast=$(sed -n 's/.* takes \([^,]*\),.*/\1/p' "$folder/fast")
  if [ "$slow" = "$fast" ]; then echo "ports of 0.1 and 400 Gbit/s both lead to $slow" && exit 1; fi
else
  grep -q 'built without pugixml' "$folder/slow"
fi
echo 'network-latency 1000' >"$folder/model"
check 0 "on 4 hosts takes oneshot, by $folder/model" explain -c AllReduce -n 4 -b 8 --hosts 4 --cost "$folder/model"
# Settings count as for a communicator.
export ECCL_COST_FILE="$folder/model"
check 0 "on 4 hosts takes oneshot, by $folder/model" explain -c AllReduce -n 4 -b 8 --hosts 4
export ECCL_TABLE_FILE="$folder/table"
echo 'AllReduce * tree' >"$folder/table"
check 0 "on 4 hosts takes tree, by $folder/table; times by $folder/model" explain -c AllReduce -n 4 -b 8 --hosts 4
check 0 "takes [a-z]*, by $folder/model" explain -c Broadcast -n 4 -b 8 --hosts 4
ECCL_ALGO=allreduce:ring check 0 "takes ring, by ECCL_ALGO; times by $folder/model" explain -c AllReduce -n 4 -b 8 --hosts 4
: >"$folder/table"
check 3 'table:1: the table of algorithms is empty' explain -c AllReduce -n 4 -b 8
printf 'AllReduce * tr' >"$folder/table"
check 3 'table:1: the last line of the table of algorithms has no end' explain -c AllReduce -n 4 -b 8
unset ECCL_TABLE_FILE
: >"$folder/model"
check 3 'model:1: the cost model is empty' explain -c AllReduce -n 4 -b 8
printf 'lines 3\ncall 1\nmove 2\n' >"$folder/model"
check 3 'model:3: the file has 2 lines of the 3 that it announces: the rest is cut off' explain -c AllReduce -n 4 -b 8
printf 'call 1\nmove 2' >"$folder/model"
check 3 'model:2: the last line of the cost model has no end' explain -c AllReduce -n 4 -b 8
unset ECCL_COST_FILE
ECCL_COST_FILE=/dev/zero check 3 'the cost model /dev/zero is longer than 16777216 bytes' explain -c AllReduce -n 4 -b 8
ECCL_SLOT=3 check 3 'ECCL_SLOT' explain -c AllReduce -n 4 -b 8
check 2 'the schedule /dev/zero is longer than 268435456 bytes' verify /dev/zero
printf 'program \033[2J\n' >"$folder/in"
check 1 'found .*\[2J' parse -
if grep -q "$(printf '\033')" "$folder/out"; then echo "a byte for the terminal got there" && exit 1; fi
: >"$folder/in"

# Many ranks take seconds and little memory: 2 GB of address space (where it can be limited: not with a sanitizer).
limited="$folder/limited"
printf '#!/bin/sh\nulimit -v 2000000\nexec "%s" "$@"\n' "$sched" >"$limited"
chmod +x "$limited"
if ! "$limited" list >"$folder/out" 2>&1; then limited=$sched; fi
for ranks in 17 1024 16384; do
  for collective in AllReduce AlltoAll; do
    timeout 100 "$limited" explain -c $collective -n $ranks --hosts 1 -b 1M >"$folder/out" 2>&1 || {
      echo "eccl_sched explain -c $collective -n $ranks: exit code $?"
      cat "$folder/out"
      exit 1
    }
    grep -q 'estimated by how the times of 4, 8 and 16 of the ranks grow' "$folder/out"
    grep -q '; chosen$' "$folder/out"
  done
done
check 0 '; a rank has more than 64 neighbours' explain -c AllReduce -n 1024 -b 1M
check 0 'on 128 hosts takes' explain -c AllReduce -n 1024 --hosts 128 -b 1M
check 2 'not a number from 1 to 65536' explain -c AllReduce -n 65537 -b 1M

echo 'speed 3' >"$folder/model"
check 3 'model:1: "speed 3": there is no such constant' explain -c AllReduce -n 4 -b 8 --cost "$folder/model"
check 2 'no equal number on each of 3 hosts' explain -c AllReduce -n 4 -b 8 --hosts 3
check 2 'none that is priced' explain -c AlltoAllv -n 4 -b 8
check 2 'are needed' explain -c AllReduce -n 4

"$sched" dump --collective AllReduce --algorithm ring --ranks 4 >"$folder/ring"
check 0 '^4 programs, the first for AllReduce of 4 ranks; 8 connection ends, 4 lanes, 20 steps' parse "$folder/ring"
check 0 'out of place: ok' verify "$folder/ring"
"$sched" dump --collective AllReduce --algorithm ring --ranks 4 --rank 2 >"$folder/two"
grep -c '^program' "$folder/two" | grep -qx 1

# One part is not passed on: rank 2 keeps what nobody sends, and the receiver waits for it.
sed '0,/repeat 2/s///' "$folder/ring" >"$folder/in"
check 1 'REFUTED' verify -
echo 'program AllReduce rank zero' >"$folder/in"
check 1 'standard input: line 1: expected a number' parse -
echo "eccl_sched answers as expected"
