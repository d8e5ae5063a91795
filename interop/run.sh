#!/bin/sh
# The proof that Java and Rust share their locks: builds the jars, runs every
# test beside the real Redisson, and prints what was shown.
#
# Fails if any test does, and if nothing was shown. Tests have processes of their own and mostly
# wait, so two programs of them run at a time, each with three tests at a time: enough for two
# cores. INTEROP_PROGRAMS=n and INTEROP_THREADS=n for n.
# What else is on the command line goes to the tests: run.sh crowd.
set -eu
cd "$(dirname "$0")"

./build.sh

target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target"
INTEROP_TABLE=$target/interop-shown.jsonl
INTEROP_PRINTS=$target/interop-prints
export INTEROP_TABLE INTEROP_PRINTS
# What an earlier run has shown is not shown by this one.
rm -f "$INTEROP_TABLE"

cargo test --no-run
programs=$(CARGO_TERM_COLOR=never cargo test --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')

# Each prints what it has to say in one piece, when it has ended.
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
