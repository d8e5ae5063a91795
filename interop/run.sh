#!/bin/sh
# The proof that Java and Rust share their locks: builds the jars, runs every
# test beside the real Redisson, and prints what was shown.
#
# Fails if any test does, and if nothing was shown. Three tests at a time, each with
# processes of its own, which mostly wait, are enough for two cores: INTEROP_THREADS=n for n.
# What else is on the command line goes to the tests: run.sh crowd.
set -eu
cd "$(dirname "$0")"

./build.sh

target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target"
INTEROP_TABLE=$target/interop-shown.jsonl
export INTEROP_TABLE
# What an earlier run has shown is not shown by this one.
rm -f "$INTEROP_TABLE"

status=0
cargo test --no-fail-fast -- --test-threads="${INTEROP_THREADS:-3}" "$@" || status=$?
echo
cargo run --quiet --bin table -- "$INTEROP_TABLE" || status=1
exit "$status"
