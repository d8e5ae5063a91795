#!/bin/sh
# Installs Go, the language of the judge, if it is missing.
set -eu
command -v go >/dev/null && exit
[ -x /usr/local/go/bin/go ] && exit

exec "$(dirname "$0")/../.ci/install" chaos golang-go
