#!/bin/sh
# check.sh HISTORY: checks with Porcupine, for each object, whether a correct lock could have
# replied as the chaos tests have recorded. Exit code 1: it could not. 2: no check was possible.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)

# Go may be installed outside of the PATH.
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo 'judge: there is no Go: apt-get install -y --no-install-recommends golang-go' >&2
    exit 2
fi

judge=$(mktemp -d)/judge
trap 'rm -rf "$(dirname "$judge")"' EXIT
(cd "$folder" && go build -o "$judge" .) || exit 2
"$judge" "$@"
