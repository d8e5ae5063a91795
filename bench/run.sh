#!/bin/sh
# The one command: builds Leasehold's worker and the rivals, runs every case,
# writes out/results.md, out/results.json and out/*.svg, and lists figures that fell by more
# than 10 % against the committed results.json. A whole run takes its place, and
# makes the tables and plots of docs/performance.md from it.
#
#   QUICK=1      short rounds and small sizes: within five minutes once it is built
#   ONLY=part    only the groups of cases whose names contain this
#   ROUNDS=n     how often the contenders alternate
#   THREADS=n    threads of the runtime of the Rust programs (2)
#   OUT=folder   somewhere else than out/
#
# Safe to run again: it installs what is missing and builds only what changed.
set -eu
cd "$(dirname "$0")"

install() { ../.ci/install bench "$@"; }

# `javac -version` prints `javac 17.0.15`.
jdk() { javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'; }

# `go version` prints `go version go1.26.8 linux/amd64`.
go_minor() { go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p'; }

command -v cc >/dev/null || install gcc libc6-dev
command -v redis-server >/dev/null || install redis-server
[ "$(jdk || true)" -ge 17 ] 2>/dev/null || install openjdk-17-jdk-headless
command -v mvn >/dev/null || install maven
command -v go >/dev/null || install golang-go
# From 1.21 on Go fetches by itself the version that go.mod asks for.
if ! [ "$(go_minor)" -ge 21 ] 2>/dev/null; then
    echo "bench: Go 1.21 or newer is needed for the Go rivals, here is $(go version)" >&2
    exit 1
fi

build_java() {
    checksum=$(find pom.xml src ../../run.sh -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)
    [ "$(cat target/stamp 2>/dev/null || true)" = "$checksum" ] && return
    echo "bench: building the worker for Redisson" >&2
    # Jars of another version must not stay on the class path.
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
