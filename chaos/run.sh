#!/bin/sh
# One chaos run: builds its programs, runs it, and prints its table.
#
#   MINUTES=n SEED=x ON=single|sentinel|cluster [DISOBEY=1] chaos/run.sh
#
# With DISOBEY=1, one worker sometimes acts as a holder without a request. The run must then fail.
set -eu
cd "$(dirname "$0")"

MINUTES=${MINUTES:-1}
ON=${ON:-single}
SEED=${SEED:-$(date +%s)}

./prepare.sh
../interop/build.sh

target=${CARGO_TARGET_DIR:-$PWD/target}
cargo build --quiet --bins
echo "chaos: MINUTES=$MINUTES SEED=$SEED ON=$ON, at $(git rev-parse --short HEAD)"
exec "$target/debug/chaos" "$MINUTES" "$SEED" "$ON" "$target/chaos" ${DISOBEY:+disobey}
