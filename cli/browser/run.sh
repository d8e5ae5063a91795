#!/usr/bin/env bash
# Tests the page of `leasehold ui` in a headless Chromium: cli/browser/run.sh. This script installs
# what is missing, and leaves a screenshot in target/browser.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=
command -v chromium >/dev/null || missing="$missing chromium"
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v npm >/dev/null || missing="$missing nodejs npm"
# shellcheck disable=SC2086
[ -z "$missing" ] || .ci/install 'make browser' $missing

target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target/browser"
[ -d "$target/browser/node_modules/playwright-core" ] ||
    npm install --silent --no-save --prefix "$target/browser" playwright-core@1.64.1
cargo build --quiet -p leasehold-cli
cp cli/browser/check.mjs "$target/browser/"
timeout 300 node "$target/browser/check.mjs" "$target/debug/leasehold" "$target/browser"
