# What there is to do here. CI calls these targets and no commands of its own.

SHELL := /bin/bash
CARGO := cargo
SIZE ?= full

.PHONY: help demo test torture check bench install clean

help: ## This list
	@echo "make TARGET:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

demo: ## Load real data, kill the loader, prove that nothing is lost, race RocksDB and SQLite (5 min)
	@scripts/demo.sh $(SIZE)

test: ## All tests (minutes)
	$(CARGO) test --workspace --locked

torture: ## The long tests: more crash states, more schedules, kill loops, sanitizers (hours)
	@scripts/torture.sh

check: ## Format, lints, documentation, scripts
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; \
	 else echo "shellcheck is not installed: scripts are not checked"; fi

bench: ## iiBench on Frond, RocksDB, SQLite and LMDB; ARGS="--rows 5000000 …" for others
	@scripts/install.sh rivals
	$(CARGO) build --release --locked -p frond-cli --features compare
	target/release/frond bench $(or $(WORKLOAD),iibench) \
	    $(or $(ARGS),--rows 5000000 --memory 70MB --targets frond$(,)rocksdb$(,)sqlite$(,)lmdb \
	    --durability lazy --dir bench-data --json bench-data/iibench.json \
	    --html bench-data/iibench.html)

install: ## What building, testing and the demo need, by apt-get
	@scripts/install.sh build rivals

clean: ## Remove what was built and what the demo and the benches left
	$(CARGO) clean
	rm -rf bench-data demo-data

# A comma within a function call.
, := ,
