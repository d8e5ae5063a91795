#!/bin/sh
# Installs Go if it is missing, which the judge is written in, and says so.
set -eu
command -v go >/dev/null && exit
[ -x /usr/local/go/bin/go ] && exit

exec "$(dirname "$0")/../.ci/install" chaos golang-go
