#!/usr/bin/env bash
# Builds `leasehold` as one static binary, and checks that the binary needs no shared library:
# cli/static.sh. The binary is in target/TARGET/release, so that it replaces no other build.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS='-C target-feature=+crt-static' CARGO_PROFILE_RELEASE_STRIP=true
cargo build --release -p leasehold-cli --target "$target"
binary=${CARGO_TARGET_DIR:-target}/$target/release/leasehold
headers=$(readelf --wide --dynamic --program-headers "$binary")
if grep -E 'NEEDED|INTERP' <<<"$headers" >&2; then
    echo "static.sh: $binary needs shared libraries" >&2
    exit 1
fi
"$binary" --version
echo "static.sh: $binary is static, $(stat -c %s "$binary") bytes"
