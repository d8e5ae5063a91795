#!/bin/sh
# check.sh HISTORY: for each object, Porcupine checks whether a correct lock could have sent the
# replies that the chaos run has recorded. Exit code 1: no correct lock could have sent
# them. Exit code 2: the check was not possible.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)

# Go may be installed in a folder that is not in PATH.
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo 'judge: Go is missing: apt-get install -y --no-install-recommends golang-go' >&2
    exit 2
fi

judge=$(mktemp -d)/judge
trap 'rm -rf "$(dirname "$judge")"' EXIT
(cd "$folder" && go build -o "$judge" .) || exit 2
"$judge" "$@"
