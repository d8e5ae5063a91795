#!/usr/bin/env bash
# Records the pictures of the guide of the command: docs/pictures/record.sh [PICTURE]...
# Real sessions of `leasehold` in tmux with a real Redis. Without arguments it records all terminal
# pictures; `ui` takes the one of the page from `make browser`. Installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
pictures=$PWD/docs/pictures

if [ "${1:-}" = ui ]; then
    command -v convert >/dev/null || .ci/install 'record.sh' imagemagick
    cli/browser/run.sh
    # A third of the bytes.
    convert "${CARGO_TARGET_DIR:-target}/browser/ui.png" -resize 1280x +dither -colors 128 "PNG8:$pictures/ui.png"
    exit
fi

missing=
for program in tmux redis-server node:nodejs; do
    command -v "${program%:*}" >/dev/null || missing="$missing ${program#*:}"
done
# shellcheck disable=SC2086
[ -z "$missing" ] || .ci/install 'record.sh' $missing

cargo build --quiet -p leasehold-cli
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$(mktemp -d)
redis=$((20000 + RANDOM % 10000))
export REDIS_URL=redis://127.0.0.1:$redis/ PATH=$target/debug:$PATH
redis-server --port "$redis" --save '' --dir "$work" >"$work/redis.log" &
started=($!)
tmux() { command tmux -L "leasehold-$$" "$@"; }
stop() {
    tmux kill-server 2>/dev/null || true
    kill "${started[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap stop EXIT
on_redis() { redis-cli -p "$redis" "$@" >/dev/null; }
for _ in {1..100}; do
    on_redis PING 2>/dev/null && break
    sleep 0.1
done

# A terminal of so many columns and rows, whose shell has the prompt `$`, or `web-1 $`.
terminal() {
    columns=$1 frames=()
    tmux -f /dev/null new-session -d -x "$1" -y "$2" -c "$work" "$(shell "${3:-}")"
    tmux set -g status off
    tmux set -g pane-border-style fg=colour240
    tmux set -g pane-active-border-style fg=colour240
    sleep 0.5
}
shell() { echo "PS1='${1:+$1 }\$ ' exec bash --norc --noprofile"; }
keys() { tmux send-keys -t "$1" "${@:2}"; }
line() { keys "$1" -l "$2" && keys "$1" Enter; }
# Notes the screen, which stays for so many seconds.
frame() {
    local file=$work/frame-${#frames[@]}
    panes >"$file"
    frames+=("$file" "$1")
}
# Panes one above the other, with a line between them.
panes() {
    local pane between=
    for pane in $(tmux list-panes -F '#{pane_id}'); do
        [ -z "$between" ] || printf '\033[90m%*s\033[0m\n' "$columns" '' | sed 's/ /─/g'
        tmux capture-pane -e -p -t "$pane"
        between=1
    done
}
# Draws the screens that were noted.
draw() {
    node "$pictures/terminal.mjs" "$columns" "${frames[@]}" >"$pictures/$1.svg"
    tmux kill-server
    echo "record.sh: docs/pictures/$1.svg, $(stat -c %s "$pictures/$1.svg") bytes"
}

owner=8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10
other=2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c

# Locks of this command, and what Java would leave: a fair lock whose first waiter is gone, a lock
# without an end, two readers.
fill() {
    empty
    hold invoices/close "$owner:7" 3600000
    on_redis RPUSH 'redisson_lock_queue:{invoices/close}' "$other:17" "$other:18"
    on_redis ZADD 'redisson_lock_timeout:{invoices/close}' 1000 "$other:17" 9e12 "$other:18"
    on_redis HSET legacy/import "$owner:42" 1
    on_redis HSET catalog mode read "$owner:1" 1 "$other:2" 1
    on_redis PEXPIRE catalog 600000
    for reader in "$owner:1" "$other:2"; do
        on_redis SET "{catalog}:$reader:rwlock_timeout:1" 1 PX 600000
    done
    background leasehold run orders/42 -- sleep 600
    sleep 1
    background leasehold run orders/42 -- sleep 600
    background leasehold run orders/42 -- sleep 600
    background leasehold run reports/daily -- sleep 600
    leasehold run --once-per 23h backup/nightly -- true
    background leasehold run --permits 4 render -- sleep 600
    background leasehold run --permits 4 render -- sleep 600
    sleep 2
}
empty() {
    kill "${started[@]:1}" 2>/dev/null || true
    started=("${started[0]}")
    sleep 0.5
    on_redis FLUSHALL
}
hold() { on_redis HSET "$1" "$2" 1 && on_redis PEXPIRE "$1" "$3"; }
background() {
    "$@" >/dev/null 2>&1 &
    started+=($!)
}

record_run() {
    empty
    printf '#!/bin/sh\nfor part in 1 2 3; do echo "part $part of 3"; sleep 2; done\n' >"$work/report"
    chmod +x "$work/report"
    terminal 104 25 web-1
    tmux split-window -v -l 16 -c "$work" "$(shell web-2)"
    sleep 0.5
    line 0.0 'leasehold run reports/daily -- ./report'
    sleep 1
    frame 2
    # By then, the holder has published its process.
    sleep 2.5
    line 0.1 'leasehold run -n reports/daily -- ./report; echo $?'
    sleep 1
    frame 4
    line 0.1 'leasehold run --ttl 3s reports/daily -- ./report; echo $?'
    sleep 1
    frame 2
    sleep 3
    frame 3
    line 0.0 'leasehold unlock --force --yes reports/daily'
    sleep 3
    frame 6
    draw run
}

record_ls() {
    fill
    terminal 214 14
    line 0 "leasehold ls"
    sleep 2
    frame 1
    draw ls
}

record_show() {
    fill
    terminal 110 22
    line 0 'leasehold show orders/42'
    sleep 1.5
    line 0 'leasehold show invoices/close'
    sleep 1.5
    line 0 'leasehold show render'
    sleep 1.5
    frame 1
    draw show
}

record_doctor() {
    fill
    terminal 162 26
    line 0 'leasehold doctor'
    sleep 5
    frame 1
    draw doctor
}

record_top() {
    fill
    # shellcheck disable=SC2016
    background sh -c 'while :; do leasehold run --fenced jobs/index -- sleep 0.6; leasehold run mail/queue -- sleep 1.4; done'
    terminal 150 30
    line 0 'leasehold top'
    sleep 5
    on_redis HSET crashed/worker "$owner:9" 1
    on_redis PEXPIRE crashed/worker 3000
    sleep 12
    frame 3
    sleep 2
    frame 3
    keys 0 Down
    keys 0 Down
    keys 0 Enter
    sleep 1.5
    frame 5
    keys 0 Escape
    keys 0 f
    sleep 1.5
    frame 5
    keys 0 n
    sleep 1
    draw top
}

for picture in "${@:-run ls show top doctor}"; do
    for name in $picture; do "record_$name"; done
done
