# All tasks of this repository. CI calls these targets, and scripts that they call.

SHELL := /bin/bash
CARGO := cargo
# The lab with all stores that it compares with.
LAB := frond-lab/lab,frond-lab/tidesdb
# One build for all tests: it contains the planted bugs, inactive. Tests that activate them run by
# themselves. WITH_LAB=1 adds those of the lab to `make test`, which then needs what `make test-lab`
# installs and builds: both use one build.
LAB_TESTED := --workspace --locked --features frond-db/planted-bugs,$(LAB)
TESTED := $(if $(WITH_LAB),$(LAB_TESTED),--workspace --locked --features frond-db/planted-bugs)
# Runs each test program, and fails it with the stacks of its threads if it hangs.
WATCHED := --config "target.'cfg(unix)'.runner=['$(CURDIR)/scripts/watch-test.sh']"
SIZE ?= full

.PHONY: help demo test torture break soak schedules check msrv bench profile install install-c clean \
    mariadb mariadb-plugin mariadb-shell mariadb-stop mariadb-bench mariadb-sysbench deb test-mariadb test-mariadb-clients conformance

help: ## This list
	@echo "make TARGET:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## Load real data, kill the loader, prove that nothing is lost, race RocksDB, SQLite and LMDB (7 min)
	@scripts/demo.sh $(SIZE)

test: test-programs schedules ## All tests; planted bugs, and which test catches each; some thread schedules (minutes)

.PHONY: test-programs
test-programs:
	$(CARGO) $(WATCHED) test $(TESTED) -- --skip planted
	$(CARGO) $(WATCHED) test $(TESTED) --lib --test planted -- planted --show-output

torture: ## The long tests: more of every campaign, schedules, soak, tmpfs, sanitizers (hours)
	@scripts/torture.sh

break: ## Run programs that try to break the built library from outside, for MINUTES (default 10) in total
	@scripts/break.sh

schedules: ## The engine under a model checker, which explores the thread schedules
	@scripts/schedules.sh

soak: ## Writers, readers and restarts for SECONDS (default 600); memory, files and space must not grow
	FROND_SOAK_SECONDS=$(or $(SECONDS),600) FROND_TEST_LIMIT=$$((900 + $(or $(SECONDS),600))) \
	    $(CARGO) $(WATCHED) test --release -p frond-db --locked --test soak -- \
	    --ignored --nocapture

check: ## Format, lints, documentation, scripts
	$(CARGO) fmt --all --check
	@scripts/install.sh rivals
	$(CARGO) clippy --workspace --all-targets --locked --features $(LAB) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --features $(LAB)
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; \
	 else echo "shellcheck is not installed: scripts are not checked"; fi

msrv: ## Whether the oldest supported Rust compiles the packages that are published (needs rustup)
	@scripts/msrv.sh

bench: ## iiBench on Frond, RocksDB, SQLite and LMDB; ARGS="--rows 5000000 …" for others
	@scripts/install.sh rivals
	$(CARGO) build --release --locked -p frond-lab --features lab --bin frond-bench
	target/release/frond-bench $(or $(WORKLOAD),iibench) \
	    $(or $(ARGS),--rows 5000000 --memory 70MB --targets frond$(,)rocksdb$(,)sqlite$(,)lmdb \
	    --dir bench-data --json bench-data.json --html bench-report)

profile: ## Share of locks and futexes in the samples of transactions (needs perf)
	@scripts/install.sh rivals
	scripts/profile.sh $(ARGS)

install: ## Install what building, testing and the demo need, with apt-get
	@scripts/install.sh build checks rivals

install-c: ## The C API under PREFIX (default /usr/local): header, libraries, pkg-config file
	@scripts/install-c.sh $(or $(PREFIX),/usr/local)

mariadb: ## Debian 12: install the server, build ENGINE=FROND, a tour in SQL with a kill -9, a race (3 min and building)
	@scripts/install.sh build
	@scripts/mariadb-setup.sh rivals
	@$(MAKE) --no-print-directory mariadb-plugin
	$(CARGO) build --release --locked -p frond-lab --features lab
	@scripts/mariadb-tour.sh

mariadb-plugin: ## ENGINE=FROND: install the pinned MariaDB and its source, build target/mariadb/build/ha_frond.so
	@scripts/mariadb-setup.sh
	$(CARGO) build --release --locked -p frond-c
	cmake -G Ninja -S plugin/mariadb -B target/mariadb/build
	ninja -C target/mariadb/build

mariadb-shell: mariadb-plugin ## A private server with the plugin, and its SQL shell
	@scripts/mariadb-server.sh start
	@scripts/mariadb-server.sh shell

mariadb-stop: ## Stop that server
	@scripts/mariadb-server.sh stop

mariadb-bench: mariadb-plugin ## Multi-row INSERTs into BLACKHOLE, FROND and InnoDB (ROWS=1000000)
	@plugin/mariadb/bench/insert.sh

mariadb-sysbench: mariadb-plugin ## sysbench on FROND and InnoDB, with ratios (ROWS, SECONDS, CACHE, THREADS, WORKLOADS)
	@scripts/mariadb-sysbench.sh

deb: mariadb-plugin ## A Debian package of ENGINE=FROND for exactly that server, unpacked and tried
	@scripts/mariadb-deb.sh
	@scripts/mariadb-deb.sh test

test-mariadb: mariadb-plugin ## The plugin's tests: results compared with InnoDB's, the server's own, crashes, the package
	@scripts/mariadb-setup.sh tests
	@plugin/mariadb/tests/run.sh
	@scripts/mariadb-deb.sh
	@scripts/mariadb-deb.sh test

test-mariadb-clients: mariadb-plugin ## mariadb-dump, mydumper, sysbench, a Python and a Java connector on ENGINE=FROND
	@scripts/mariadb-setup.sh clients
	@plugin/mariadb/tests/clients/run.sh

conformance: mariadb-plugin ## The server's own test suites on ENGINE=FROND, with InnoDB's results as the reference (an hour)
	@scripts/mariadb-setup.sh tests
	@plugin/mariadb/tests/conformance/run.py $(ARGS)

.PHONY: lab lab-build lab-published lab-suite test-lab
lab-build:
	@scripts/install.sh build rivals fio
	@scripts/mariadb-setup.sh rivals
	@$(MAKE) --no-print-directory mariadb-plugin
	$(CARGO) build --release --locked -p frond-lab --features $(LAB)

lab: lab-build ## A short run of everything against every rival, and a report (build 22 min, run 12); LAB_SIZE=standard for hours
	target/release/lab run overview --size $(or $(LAB_SIZE),quick); ended=$$?; target/release/lab report; exit $$ended

# Before the build, which takes long.
lab-suite:
	@[ -n "$(SUITE)" ] || { echo "Which study? SUITE=… is one of: $$(sed -n 's/^\[\([a-z].*-20[0-9][0-9].*\)\]$$/\1/p' \
	    crates/frond-lab/lab/suites.toml | paste -sd ' ')" >&2; exit 2; }

lab-published: lab-suite lab-build ## Repeat a published study: SUITE=iibench-2011, weblog-2011, rowformats-2008, …; LAB_SIZE=published
	target/release/lab run $(SUITE) --size $(or $(LAB_SIZE),standard) --resume $(ARGS); ended=$$?; \
	    target/release/lab report; exit $$ended

test-lab: mariadb-plugin ## The lab's tests on real servers and rivals, and its pages in a browser
	@scripts/install.sh build rivals lab
	@scripts/mariadb-setup.sh rivals
	$(CARGO) $(WATCHED) test $(LAB_TESTED) --lib -- lab:: sql --test-threads 2
	$(CARGO) $(WATCHED) test $(LAB_TESTED) --test lab -- --test-threads 2
	@scripts/lab-report-test.sh

clean: ## Remove what was built, and the data of the demo and the benches
	$(CARGO) clean
	rm -rf bench-data* bench-report demo-data lab-data lab-report

# A comma inside a function call.
, := ,
