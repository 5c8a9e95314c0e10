#!/bin/sh
# Runs eccl_info the way people do, and checks exit codes and answers: eccl_info_test.sh TOOL MODULES LIBRARIES, with
# the folder of the tests' transport modules, and where an installation has its libraries as seen from its programs.
set -eu
info=$1 modules=$2 libraries=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# check EXIT_CODE PATTERN [VARIABLE=VALUE...] COMMAND...: PATTERN must occur in what it prints.
check() {
  expected=$1 pattern=$2
  shift 2
  code=0
  env "$@" >"$folder/out" 2>&1 || code=$?
  if [ "$code" != "$expected" ] || ! grep -qE -- "$pattern" "$folder/out"; then
    echo "$*: exit code $code (expected $expected), expected '$pattern' in:"
    cat "$folder/out"
    exit 1
  fi
}

check 0 '^USAGE' "$info" --help
check 2 'nonsense' "$info" --nonsense
check 0 '^ECCL +[0-9.]+$' "$info" --version
if grep -q transport "$folder/out"; then echo "--version says more than the version" && exit 1; fi
check 0 '^ECCL_TRANSPORT=$' "$info" --settings

check 0 '^transport thread, priority 300, built in; usable$' "$info"
check 0 '^transport shm, priority 200, built in; not usable: ECCL_SHM_DISABLE=1$' ECCL_SHM_DISABLE=1 "$info"
check 0 '^transport tcp, priority 100, built in; usable$' ECCL_TRANSPORT=tcp "$info"
check 0 '^transport thread, .*; not usable: ECCL_TRANSPORT=tcp$' ECCL_TRANSPORT=tcp "$info"
check 1 "there is no transport 'x'; there are thread, shm, tcp" ECCL_TRANSPORT=x "$info"
check 1 'ECCL_SLOTS' ECCL_SLOTS=3 "$info"
check 0 '^rail +lo, 127[.]0[.]0[.]1$' ECCL_SOCKET_IFNAME==lo "$info"
check 1 'selects no interface' ECCL_SOCKET_IFNAME=nonesuch "$info"

# Without a usable OpenSSL: the loader finds this file first.
touch "$folder/libssl.so.3"
check 0 '^encrypt +(OpenSSL 3[.0-9]+ |not usable: ECCL_ENCRYPT=1 needs)' "$info"
check 0 '^encrypt +not usable: ECCL_ENCRYPT=1 needs .*(libssl[.]so[.]3: file too short|headers)' LD_LIBRARY_PATH="$folder" "$info"

unix=$modules/libeccl_transport_unix.so wrong=$modules/libeccl_transport_wrong.so
check 0 "^transport unix, priority 150, module $unix; usable$" ECCL_TRANSPORT_MODULES="$unix" "$info"
check 1 "'wrong' .* is of ECCL 0.0.9" ECCL_TRANSPORT_MODULES="$wrong" "$info"

# Modules of the build, where all of them are.
check 0 '^device +' "$info"
if grep -q 'is not there' "$folder/out"; then echo "the modules of the build are not found" && cat "$folder/out" && exit 1; fi

# Modules of the installation.
mkdir -p "$folder/bin" "$folder/bin/$libraries/eccl"
cp "$info" "$folder/bin/"
cp "$unix" "$wrong" "$folder/bin/$libraries/eccl/"
check 0 '^transport unix, priority 150, module .*/eccl/libeccl_transport_unix.so; usable$' "$folder/bin/eccl_info"
check 0 "^transport not usable: the transport module 'wrong' .* is of ECCL 0.0.9" "$folder/bin/eccl_info"
check 0 '^device cuda not usable: its module .*/eccl/libeccl_cuda.so is not there' "$folder/bin/eccl_info"
check 0 '^speeds    default constants: ECCL_SPEEDS_FILE=none$' ECCL_SPEEDS_FILE=none "$folder/bin/eccl_info"
check 0 '^transport unix, .*; not usable: ECCL_TRANSPORT=tcp$' ECCL_TRANSPORT=tcp "$folder/bin/eccl_info"
