#!/usr/bin/env bash
# Checks the alerts and the dashboard with a real Prometheus and a real Redis: contrib/check.sh.
# Installs missing programs.
#
# While `examples/metrics.rs` runs, this script deletes its lock, closes its connections and suspends
# Redis. Then every query of the dashboard and of the alerts must have a result. The time windows of
# the queries are shortened to the length of this check, and the thresholds of the alerts are left
# out, because prometheus-alerts.test.yml tests the thresholds.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=
for program in prometheus promtool:prometheus redis-server jq curl; do
    command -v "${program%:*}" >/dev/null || missing="$missing ${program#*:}"
done
# shellcheck disable=SC2086
[ -z "$missing" ] || .ci/install 'make dashboards' $missing

promtool check rules contrib/prometheus-alerts.yml
promtool check config contrib/prometheus.yml
promtool test rules contrib/prometheus-alerts.test.yml

cargo build --quiet --example metrics --features metrics
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$(mktemp -d)
started=()
stop() {
    for pid in "${started[@]}"; do
        kill -CONT "$pid" && kill "$pid" || true
    done 2>/dev/null
    wait
    rm -rf "$work"
}
trap stop EXIT

port=$((20000 + RANDOM % 10000))
next_port() {
    port=$((port + 1))
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
}
next_port && redis=$port
next_port && page=$port
next_port && prometheus=$port

start() {
    local log=$work/$1.log
    shift
    "$@" >"$log" 2>&1 &
    started+=($!)
}
on_redis() { redis-cli -p "$redis" "$@" >/dev/null; }
start redis redis-server --port "$redis" --save '' --dir "$work"
for _ in {1..100}; do
    on_redis PING 2>/dev/null && break
    sleep 0.1
done
REDIS_URL=redis://127.0.0.1:$redis/ start example "$target/debug/examples/metrics" "127.0.0.1:$page"
sed -e 's/_interval: .*/_interval: 1s/' -e "s#prometheus-alerts#$PWD/contrib/prometheus-alerts#" \
    -e "s/127.0.0.1:9464/127.0.0.1:$page/" contrib/prometheus.yml >"$work/prometheus.yml"
start prometheus prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
    --web.listen-address="127.0.0.1:$prometheus"

echo 'dashboards: a lock is deleted, connections are closed, and Redis is suspended'
sleep 5
on_redis DEL report
on_redis CLIENT KILL TYPE normal
sleep 5
kill -STOP "${started[0]}"
sleep 8
kill -CONT "${started[0]}"
sleep 8

api=http://127.0.0.1:$prometheus/api/v1
dashboard() {
    jq -r '.panels[] | .title as $title | .targets[] | $title + "\t" + .expr' contrib/grafana-dashboard.json
    echo $'job\tcount by (job) (leasehold_hold_active)'
}
# Changes each comparison, so that it returns 0 or 1 instead of no result.
alerts() {
    curl -s "$api/rules" | jq -r '.data.groups[].rules[] | .name + "\t" + .query' | sed 's/ > / > bool /g'
}
at_once() {
    sed -e 's/\$__rate_interval/20s/g' -e 's/\$job/.*/g' -e 's/offset [0-9]*m/offset 5s/g' \
        -e 's/\[[0-9]*m\([]:]\)/[20s\1/g' -e 's/:30s\]/:1s]/g'
}
queries=$( (dashboard && alerts) | at_once)
bad=0
while IFS=$'\t' read -r title query; do
    series=$(curl -s "$api/query" --data-urlencode "query=$query" |
        jq -r 'if .status == "success" then [.data.result[] | select(.value[1] != "NaN")] | length else .error end')
    printf '%-32s %s series\n' "$title" "$series"
    if ! [ "$series" -gt 0 ] 2>/dev/null; then
        printf 'dashboards: no result: %s\n' "$query"
        bad=1
    fi
done <<<"$queries"
count=$(wc -l <<<"$queries")
firing=$(curl -s "$api/alerts" | jq -r '.data.alerts[] | .labels.alertname + " " + .state' | sort -u | paste -sd,)
echo "dashboards: $count queries; alerts now: $firing"
# These alerts have no waiting time, so they must fire now.
for alert in LeaseholdHoldTaken LeaseholdHoldExpired; do
    case $firing in *"$alert firing"*) ;; *) echo "dashboards: $alert does not fire"; bad=1 ;; esac
done
[ "$bad" -eq 0 ] || tail -n 20 "$work"/*.log
exit "$bad"
