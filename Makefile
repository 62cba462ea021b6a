# What one types. The build itself is CMake's (CMakePresets.json); `make help` lists the targets.

# As many compilers as there are cores, but no more than memory has room for (eight libtorch sources in one: 1.6 GB).
JOBS ?= $(shell scripts/jobs)
CTEST = ctest --output-on-failure -j$(TEST_JOBS) --test-dir
TEST_JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help install build program deb wheel test test-unit demo results agents backends environments interop dev asan tsan clang fuzz lint format format-check bench fleet manifests soak clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/\1 /p' $(MAKEFILE_LIST) | awk '{n=$$1; $$1=""; printf "  make %-13s%s\n", n, $$0}'

install:  ## the Debian packages that are missing (scripts/packages.txt), and OpenBLAS as the BLAS
	@scripts/install scripts/packages.txt

build: install build/release/build.ninja  ## the program, at build/release/tidemill, and its tests
	cmake --build build/release -j $(JOBS)

program: install build/release/build.ninja  ## the program, its page and what it starts, without the tests
	cmake --build build/release -j $(JOBS) --target tidemill_programs

deb: program  ## a Debian package of the program: build/release/tidemill_VERSION_ARCHITECTURE.deb
	cd build/release && cpack -G DEB

wheel: install  ## a Python wheel of the program for the CPU, in build/wheel, tried in a fresh virtual environment (5 GB: torch)
	scripts/wheel cpu --check

test: build  ## everything: install what is missing, build, run every test
	$(CTEST) build/release

test-unit: build  ## the quick tests, about a minute
	$(CTEST) build/release -L unit

demo: install build/release/build.ninja  ## a small agent learns to write C functions on this machine (PROOF=1: also with proofs for rewards)
	cmake --build build/release -j $(JOBS) --target tidemill tidemill-sim tidemill_page
	PROOF=$(PROOF) examples/demo.sh

results: program  ## background calls, learned against a control: three seeds, about an hour (docs/tools.md)
	for seed in 1 2 3; do examples/background.sh $$seed || exit 1; done

agents: build  ## real agents and clients, installed from npm and PyPI, against the gateway (AGENTS="codex ..": some)
	scripts/agents build/release $(AGENTS)
	scripts/boxed-agents build/release $(AGENTS)
	scripts/structured-clients build/release
	scripts/example-agent build/release

backends: program  ## vLLM and torch's FSDP2 behind the program's ports, from PyPI (6 GB; PARTS="mixes ..": some)
	scripts/backends build/release $(PARTS)

environments: program  ## released environments of NeMo-Gym, OpenEnv and verifiers, from PyPI, as episodes (ROWS="echo ..": some)
	scripts/environments build/release $(ROWS)

dev: install build/dev/build.ninja  ## debug symbols and light optimization; runs the quick tests
	cmake --build build/dev -j $(JOBS)
	$(CTEST) build/dev -L unit

asan: install build/asan/build.ninja  ## build and test with the address and undefined sanitizers
	cmake --build build/asan -j $(JOBS)
	scripts/sanitized $(CTEST) build/asan

tsan: install build/tsan/build.ninja  ## build and test with the thread sanitizer (all that needs no libtorch)
	cmake --build build/tsan -j $(JOBS)
	scripts/sanitized $(CTEST) build/tsan

clang: install-dev build/clang/build.ninja  ## build with clang 16, the fuzz targets included
	cmake --build build/clang -j $(JOBS)

fuzz: clang  ## every fuzz target for FUZZ_SECONDS (default 60)
	scripts/fuzz build/clang/fuzz

lint: install install-dev build/dev/build.ninja  ## clang-tidy, warnings are errors; FILES="a.cc b.cc" for some
	cmake --build build/dev -j $(JOBS) --target tidemill_proto tidemill_version_source
	scripts/lint build/dev $(FILES)

format: install-dev  ## clang-format over every source
	scripts/format

format-check: install-dev  ## fails if `make format` would change anything
	scripts/format --check

bench: build  ## the benchmarks: ratios measured in one run
	scripts/bench build/release

interop: build  ## transformers, PEFT, TensorBoard, W&B, MLflow, pandas, datasets read what is written; the tinker client trains; the wheel is tried
	scripts/interop build/release

fleet: build  ## fleets by `tidemill launch`: processes, ssh into two network namespaces, a real Slurm; nodes are drained and killed
	@scripts/install scripts/packages-fleet.txt
	scripts/fleet build/release

manifests: program  ## what `tidemill launch` makes for Kubernetes, against the schemas of its API (PyPI, kubectl)
	scripts/manifests build/release

soak: build  ## for SOAK_SECONDS (default 600): the simulator, then a fleet under every fault
	scripts/soak build/release

clean:  ## what the targets above built
	rm -rf build/release build/dev build/asan build/tsan build/clang

.PHONY: install-dev
install-dev:
	@scripts/install scripts/packages-dev.txt

build/%/build.ninja: CMakePresets.json
	cmake --preset $*
