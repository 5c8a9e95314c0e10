#!/bin/sh
# What scripts/distros (the first argument) leaves behind when it is killed: nothing that runs or is mounted, and a folder
# that the next one removes. With a debootstrap that takes for ever.
set -eu
script=$1
folder=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill -KILL "$running" 2>/dev/null || :; rm -rf "$folder"' EXIT
if [ "$(id -u)" -ne 0 ] || ! unshare --mount --pid --fork true 2>/dev/null || ! command -v setpriv git flock >/dev/null; then
  echo "skipped: needs root, namespaces, setpriv, flock and git"
  exit 0
fi
mkdir "$folder/bin" "$folder/systems"
# shellcheck disable=SC2016
printf '#!/bin/sh\nmkdir -p "$3/proc"; mount -t proc proc "$3/proc"; echo begun >"$3.begun"; sleep 1000\n' >"$folder/bin/debootstrap"
chmod +x "$folder/bin/debootstrap"
export PATH="$folder/bin:$PATH"

# begin: starts it and waits until its debootstrap runs; sets `running` and `made`.
begin() {
  "$script" --folder "$folder/systems" --mirror http://nowhere.invalid/ bookworm >"$folder/log" 2>&1 &
  running=$!
  for _ in $(seq 300); do
    made=$(ls -d "$folder"/systems/*/bookworm.begun 2>/dev/null | grep -v "^$left/" | head -n 1)
    [ -z "$made" ] || { made=${made%/bookworm.begun} && return 0; }
    sleep 0.1
  done
  cat "$folder/log"
  exit 1
}
# nothing_runs: no process holds the lock of the folder any more, and nothing is mounted there.
nothing_runs() {
  flock -w 30 "$made/lock" true || { echo "processes of $made still run" && exit 1; }
  if grep -q "$folder" /proc/mounts; then echo "mounts are left" && exit 1; fi
}

left=none
begin
if grep -q "$folder" /proc/mounts; then echo "its mounts are seen outside" && exit 1; fi
kill -KILL "$running"
wait "$running" 2>/dev/null || :
nothing_runs
left=$made
begin
[ ! -e "$left" ] || { echo "$left is still there" && exit 1; }
kill -TERM "$running"
wait "$running" 2>/dev/null || :
running=
[ -z "$(ls "$folder/systems")" ] || { echo "left: $(ls "$folder/systems")" && exit 1; }
echo "passed"
