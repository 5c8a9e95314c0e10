#!/bin/sh
# Runs eccl_sched (the first argument) the way people do, and checks exit codes and answers.
set -eu
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
check 2 'none of 4 ranks' dump --collective AllReduce --algorithm ring --ranks 4 --rank 4
check 2 'cannot be read' verify "$folder/none"
check 0 'in place: ok, minSlots 2, 28 moves' verify --collective allreduce --algorithm ring --ranks 4
check 0 'AlltoAllv relay, 5 ranks, 2 channels, out of place: ok' verify --all --ranks 5 --channels 2


# What is chosen without a model and with one, and what is wrong with one.
check 0 'AllReduce of 65536 bytes among 8 ranks on 1 host takes direct, by the default cost model' explain -c allreduce -n 8 -b 64K
check 0 '^direct +[0-9.]+ +1.00x .*; chosen$' explain -c AllReduce -n 8 -b 64K
check 0 '^ring +[0-9.]+ ' explain -c AllReduce -n 8 -b 64K --hosts 2 --cores 2 --plain
echo 'network-latency 1000' >"$folder/model"
check 0 "on 4 hosts takes oneshot, by $folder/model" explain -c AllReduce -n 4 -b 8 --hosts 4 --cost "$folder/model"
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
