# Sourced by the other scripts; not run by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

jobs_() { nproc; }
# Tests at once: some of them wait, for time to pass or for a machine to boot.
test_jobs_() { echo $(($(nproc) * 3 / 2)); }

# configure FOLDER [CMAKE ARGUMENTS]: Ninja where there is one, make otherwise; the folder keeps its generator.
configure() {
  local folder=$1
  shift
  local generator=()
  if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  cmake -S . -B "$folder" "${generator[@]}" "$@" >"$folder.log" 2>&1 || {
    cat "$folder.log" >&2
    die "configuring $folder failed (above)"
  }
  grep -E '^-- (SIMD kernels|CUDA compile check)' "$folder.log" || true
}

# build FOLDER [TARGETS]
build() {
  local folder=$1
  shift
  cmake --build "$folder" --parallel "$(jobs_)" ${*:+--target "$@"}
}

# count_of REPORT tests|failures|skipped: a number from the head of a ctest JUnit report.
count_of() { grep -m 1 -oP "^\s*$2=\"\K[0-9]+" "$1"; }

# The skipped tests of a ctest JUnit report, each with the reason it gave.
report_skipped() {
  echo "$(count_of "$1" skipped) tests were skipped, for these reasons:"
  awk '
    /<testcase / { name = $0; sub(/.* name="/, "", name); sub(/" classname=.*/, "", name); reason = ""; take = 0 }
    / status="notrun"/ { skipped = 1 }
    /\[  SKIPPED \]/ { take = 0 }
    /^(\t*<system-out>)?skipped: / && reason == "" { reason = $0; sub(/.*skipped: /, "", reason) }  # no GoogleTest
    take && NF { reason = reason (reason == "" ? "" : " ") $0 }
    /: Skipped$/ { take = 1 }
    /<\/testcase>/ {
      gsub(/&lt;/, "<", reason); gsub(/&gt;/, ">", reason); gsub(/&quot;/, "\"", reason); gsub(/&apos;/, "\x27", reason)
      gsub(/&amp;/, "\\&", reason)
      if (skipped) print "  " name ": " (reason == "" ? "no reason given" : reason)
      skipped = 0
    }' "$1"
}

# report_slowest REPORT: the tests of a ctest JUnit report that took longest.
report_slowest() {
  echo "The slowest tests, in seconds:"
  sed -nE 's/^\s*<testcase name="([^"]*)".* time="([0-9.]+)".*/\2 \1/p' "$1" | sort -rn |
    awk 'NR <= 5 { printf "  %.1f  %s\n", $1, $2 }'
}

# report_mutants REPORT: what the verifier said to the mutants of schedules, over all algorithms.
report_mutants() {
  awk '
    / mutants, [0-9]+ rejected, / {
      for (i = 2; i <= NF; ++i) {
        if ($i ~ /^mutants/) made += $(i - 1)
        if ($i ~ /^rejected/) rejected += $(i - 1)
      }
      ++schedules
    }
    END {
      if (made) printf "%d schedules were mutated: %d mutants, %d rejected, %d accepted and run\n", schedules, made, rejected, made - rejected
    }' "$1"
}

# report_failed REPORT: the failed tests of a ctest JUnit report, each with the end of what it printed.
report_failed() {
  awk -v most=25 '
    /<testcase / { name = $0; sub(/.* name="/, "", name); sub(/" classname=.*/, "", name); lines = 0 }
    / status="fail"/ { failed = 1 }
    failed { line[lines++ % most] = $0 }
    /<\/testcase>/ && failed {
      print "FAILED " name
      for (i = lines > most ? lines - most : 0; i < lines; ++i) {
        text = line[i % most]
        gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "\x27", text)
        gsub(/&amp;/, "\\&", text)
        print "  " text
      }
      failed = 0
    }' "$1"
}
