#!/bin/sh
# Builds the Java side of the interop tests: one program, with two versions of Redisson.
#
# The script installs only missing programs, and builds only changed jars, so it can run repeatedly.
set -eu
cd "$(dirname "$0")/java"

install() { ../../.ci/install interop "$@"; }

# Prints the major version of the JDK. `javac -version` prints `javac 17.0.15`.
jdk() { javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'; }

[ "$(jdk || true)" -ge 17 ] 2>/dev/null || install openjdk-17-jdk-headless
command -v mvn >/dev/null || install maven

checksum=$(find pom.xml src ../build.sh -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d ' ' -f 1)

build() {
    peer=$1
    shift
    stamp=target/$peer/stamp
    if [ "$(cat "$stamp" 2>/dev/null || true)" = "$checksum" ]; then
        echo "interop: $peer is up to date"
    else
        echo "interop: building $peer"
        # Jars of an older version would otherwise stay on the class path.
        rm -rf "target/$peer"
        mvn --quiet --batch-mode --no-transfer-progress "$@" package
        echo "$checksum" >"$stamp"
    fi
    echo "interop: java -cp '$PWD/target/$peer/run/*' leasehold.interop.Main"
}

build redisson-4
build redisson-3 -Predisson-3
