#!/bin/sh
# Counts the instructions of fixed work on a simulated server. Fails if a count is more than 5 %
# above its figure in instructions.txt. WRITE=1 writes the counts to this file. FEATURES=metrics
# counts the instructions with a metrics recorder. Installs valgrind if it is missing.
#
# A figure is for one operation: (count of the work - count of `start`) / number of operations.
# No count includes the instructions of the simulated server.
set -eu
cd "$(dirname "$0")/.."
figures=benches/instructions.txt
times=5000

command -v valgrind >/dev/null || .ci/install instructions valgrind libc6-dbg

program=$(cargo bench --quiet --no-default-features --features "${FEATURES:-}" --bench workload --no-run --message-format=json |
    sed -n 's/.*"name":"workload".*"executable":"\([^"]*\)".*/\1/p')

# With inclusive costs, callgrind_annotate prints one line for all costs of a function:
# 4,567 (12.3%)  ???:<leasehold_twin::connection::Connection as …>::poll [/path/of/workload]
count() {
    valgrind --tool=callgrind --callgrind-out-file="$counts/$1.costs" "$program" "$1" >/dev/null 2>&1
    callgrind_annotate --inclusive=yes --threshold=100 "$counts/$1.costs" | awk '
        /PROGRAM TOTALS/ { total = $1 }
        /leasehold_twin::connection::Connection as .*::poll \[/ && !server { server = $1 }
        END { gsub(",", "", total); gsub(",", "", server); if (total) print total - server }'
}

counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT
# Runs only two programs at a time. With more, a program would be slow and renew its locks.
for two in 'start holds' 'pairs hand-overs'; do
    for work in $two; do
        count "$work" >"$counts/$work" &
    done
    wait
done
for work in start pairs hand-overs holds; do
    [ -s "$counts/$work" ] ||
        { echo "instructions: callgrind counted nothing in $work" >&2; exit 1; }
done
start=$(cat "$counts/start")

measured=$(for work in pairs hand-overs holds; do
    echo "$work $((($(cat "$counts/$work") - start) / times))"
done)
if [ "${WRITE:-}" ]; then
    { echo "# Instructions for each operation, as $(rustc --version | cut -d ' ' -f 1,2) compiles them."
        echo "$measured"; } >"$figures"
    cat "$figures"
    exit
fi

echo "$measured" | awk -v figures="$figures" '
    BEGIN {
        while ((getline line < figures) > 0) {
            if (line ~ /^#/) { print line; continue }
            split(line, pair, " "); known[pair[1]] = pair[2]
        }
        printf "%-12s %10s %10s %8s\n", "work", "committed", "now", "change"
    }
    {
        if (!($1 in known)) { printf "instructions: there is no figure for %s\n", $1; bad = 1; next }
        change = ($2 / known[$1] - 1) * 100
        printf "%-12s %10d %10d %+7.1f%%\n", $1, known[$1], $2, change
        if (change > 5) bad = 1
        seen++
    }
    END {
        if (seen < 3) { print "instructions: not everything was counted"; bad = 1 }
        if (bad) print "instructions: more than 5 % above the committed figures; WRITE=1 benches/instructions.sh commits to new ones"
        exit bad
    }'
