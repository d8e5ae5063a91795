#!/bin/sh
# Has the history that the chaos recorded the answers of a lock? Asks Porcupine, object by
# object: check.sh HISTORY. Ends with 1 if not, and with 2 if it could not look.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)

# It may be installed where no PATH leads.
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo 'judge: there is no Go: apt-get install -y --no-install-recommends golang-go' >&2
    exit 2
fi

judge=$(mktemp -d)/judge
trap 'rm -rf "$(dirname "$judge")"' EXIT
(cd "$folder" && go build -o "$judge" .) || exit 2
"$judge" "$@"
