#!/bin/sh
# Builds Leasehold's worker and the rivals, and runs every case. Writes out/results.md,
# out/results.json and out/*.svg. Lists figures that are more than 10 % worse than those in the
# committed results.json. A run of all cases replaces the committed results.json, and updates the
# tables and plots of docs/performance.md.
#
#   QUICK=1      short rounds and small sizes: five minutes at most, if everything is built
#   ONLY=part    only the groups of cases whose names contain this part
#   ROUNDS=n     how many rounds the contenders run in turn
#   THREADS=n    threads of the runtime of the Rust programs (2)
#   OUT=folder   the folder for the output, instead of out/
#
# The script installs only missing programs, and builds only changed ones, so it can run repeatedly.
set -eu
cd "$(dirname "$0")"

install() { ../.ci/install bench "$@"; }

# Prints the major version of the JDK. `javac -version` prints `javac 17.0.15`.
jdk() { javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'; }

# Prints the minor version of Go. `go version` prints `go version go1.26.8 linux/amd64`.
go_minor() { go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p'; }

command -v cc >/dev/null || install gcc libc6-dev
command -v redis-server >/dev/null || install redis-server
[ "$(jdk || true)" -ge 17 ] 2>/dev/null || install openjdk-17-jdk-headless
command -v mvn >/dev/null || install maven
command -v go >/dev/null || install golang-go
# From version 1.21 on, Go itself fetches the version that go.mod requires.
if ! [ "$(go_minor)" -ge 21 ] 2>/dev/null; then
    echo "bench: the Go rivals need Go 1.21 or newer, but this machine has $(go version)" >&2
    exit 1
fi

build_java() {
    checksum=$(find pom.xml src ../../run.sh -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)
    [ "$(cat target/stamp 2>/dev/null || true)" = "$checksum" ] && return
    echo "bench: building the worker for Redisson" >&2
    # Jars of an older version would otherwise stay on the class path.
    rm -rf target
    mvn --quiet --batch-mode --no-transfer-progress package
    echo "$checksum" >target/stamp
}

(cd rivals/java && build_java)
(cd rivals/go && go build -o rivals .)
cargo build --quiet --release

target=${CARGO_TARGET_DIR:-$PWD/target}
BENCH_JAVA="$PWD/rivals/java/target/run/*"
BENCH_GO=$PWD/rivals/go/rivals
export BENCH_JAVA BENCH_GO
exec "$target/release/driver"
