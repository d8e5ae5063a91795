#!/bin/sh
# Installs Go if it is missing, which the judge is written in, and says so.
set -eu
command -v go >/dev/null && exit
[ -x /usr/local/go/bin/go ] && exit

echo 'chaos: installing golang-go, which the judge needs' >&2
if ! command -v apt-get >/dev/null; then
    echo 'chaos: there is no apt-get here: install Go and try again' >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then sudo=; else sudo=sudo; fi
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends golang-go
