#!/bin/sh
# Proves that Java and Rust share locks: builds the jars, runs every test with the real Redisson,
# and prints the scenarios that the tests have shown.
#
# Fails if a test fails, or if no scenario was shown. Tests start processes of their own and mostly
# wait. So two test programs run at the same time, and each of them runs three tests at the same
# time, which is enough for two cores. INTEROP_PROGRAMS=n and INTEROP_THREADS=n change these
# numbers. Other arguments go to the tests: run.sh crowd.
set -eu
cd "$(dirname "$0")"

./build.sh

target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target"
INTEROP_TABLE=$target/interop-shown.jsonl
INTEROP_PRINTS=$target/interop-prints
export INTEROP_TABLE INTEROP_PRINTS
# The results of an earlier run must not count for this run.
rm -f "$INTEROP_TABLE"

cargo test --no-run
programs=$(CARGO_TERM_COLOR=never cargo test --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')

# The output of each program is printed in one piece after the program has ended.
status=0
# shellcheck disable=SC2016
echo "$programs" | xargs -P "${INTEROP_PROGRAMS:-2}" -I '{}' sh -c '
    program=$1; shift
    said=$(mktemp); status=0
    "$program" "$@" >"$said" 2>&1 || status=1
    exec 9>"$INTEROP_PRINTS"; flock 9
    echo "$program"; cat "$said"; rm -f "$said"
    exit "$status"
' program '{}' --test-threads="${INTEROP_THREADS:-3}" "$@" || status=1
cargo test --doc || status=1
echo
cargo run --quiet --bin table -- "$INTEROP_TABLE" || status=1
exit "$status"
