# The common tasks. `make help` lists them. Packages come from deploy/debian-packages.txt.
PRESET ?= release
# Debian's interpreter: the Python packages used are Debian's too.
PYTHON ?= /usr/bin/python3
BUILD := build/$(PRESET)
INSTALL := deploy/install-packages.sh
FUZZ_SECONDS ?= 600
# Each an environment of tests/conformance/environments.txt, with a test of that name.
CONFORMANCE ?= pyg jraph torchdata arrow dgl tfgnn trainers compile huggingface ray ogb atoms atoms_example
# Real sizes and graphs, where their folder is there: tests and benchmarks use it, and do without.
PACKHOUSE_SHARED_DATA ?= $(abspath ../shared/data)
export PACKHOUSE_SHARED_DATA
SHARED_DATA = $(PACKHOUSE_SHARED_DATA)
GRAPHS ?= $(SHARED_DATA)/graphs/molhiv.npz

.DEFAULT_GOAL := help
.PHONY: help packages build test test-long wings test-shared-data conformance docs demo demo-sampling check asan tsan fuzz bench bench-micro bench-rows bench-sampling bench-planning bench-freshness bench-balance bench-partitioning bench-tfgnn bench-device bench-sequences bench-readers bench-lane bench-cuda bench-frameworks bench-growth bench-larger bench-sweep bench-training gallery image wheel wheel-check soak soak-cluster soak-drain soak-update soak-memory soak-lanes abuse mutants lint size released-protos clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

packages:
	@$(INSTALL) build page partition command demo test

build: packages  ## Build the servers, programs, the Python package with the command line, and tests in build/release
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET)

# The server with the wings that are asked for, and the Python package with the command line: a fresh machine
# has them sooner. Where all has been built, that is taken.
for_demo = $(if $(shell grep -s '^PACKHOUSE_WINGS:.*=all$$' build/release/CMakeCache.txt),,-DPACKHOUSE_TESTS=OFF '-DPACKHOUSE_WINGS=$(1)')

demo:  ## Stream real graphs through a server, check every one; DATASET=graphs.npz or sizes.csv for yours
	@$(INSTALL) build command demo
	cmake --preset release $(call for_demo,none)
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -m packhouse.demo \
	  --packhoused build/release/service/packhoused --cli build/release/bin/packhouse \
	  $(if $(DATASET),--dataset '$(DATASET)') $(DEMO_FLAGS)

SCALE ?= 1
demo-sampling:  ## A sub-graph around each paper of a graph in OGBN-MAG's shape, to a trainer; SCALE=0.01 for a small one
	@$(INSTALL) build command demo
	cmake --preset release $(call for_demo,tfgnn;graphs;partition)
	cmake --build --preset release --target packhoused packhouse-graph packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -m packhouse.demo.sampling \
	  --packhoused build/release/service/packhoused --cli build/release/bin/packhouse \
	  --scale $(SCALE) $(DEMO_FLAGS)

# Where CTest writes what tests printed, to tell which were skipped, and why.
RESULTS = --output-junit tests.xml --test-output-size-passed 1000000

# Tests wait, too: what they leave of the processors begins the build for ThreadSanitizer.
test: packages  ## Build, and run what a change must pass; what has threads and no gRPC under TSan too
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --preset tsan -DPACKHOUSE_ALL_THREADS=OFF
	cmake --build --preset release
	nice -n 19 ninja -C build/tsan -j1 > /dev/null 2>&1 & \
	  trap 'exit 1' INT TERM; trap "kill $$! 2> /dev/null; wait" EXIT; \
	  ctest --preset release -LE long $(RESULTS)
	cmake --build --preset tsan
	ctest --preset tsan $(RESULTS)
	@$(PYTHON) tests/report_skipped.py build/release/tests.xml build/tsan/tests.xml

test-long: FUZZ_SECONDS = 60
test-long: wings asan tsan fuzz soak soak-cluster soak-drain soak-memory soak-lanes abuse conformance mutants  ## What takes too long for `make test`, some hours: each wing alone, all under ASan, all with threads under TSan, libFuzzer, benchmarks, soaks, hostile clients, real frameworks, mutants
	cmake --build --preset release --target packhoused packhouse_python packhouse_long_tests
	ctest --preset release -L long $(RESULTS)

# Each wing with those that it stands on, and nothing else; in one folder, so that little is built twice.
WINGS := none tfgnn 'tfgnn;graphs' 'tfgnn;graphs;partition' 'tfgnn;graphs;partition;partition_mpi' 'tfgnn;graphs;cluster' page
wings: packages  ## Build the server with no wing, and with each and those that it stands on (some minutes)
	@for wings in $(WINGS); do echo "== $$wings" && \
	  cmake --preset release -B build/wings -DPACKHOUSE_TESTS=OFF "-DPACKHOUSE_WINGS=$$wings" >/dev/null && \
	  cmake --build build/wings && build/wings/service/packhoused --version || exit 1; done

test-shared-data: packages  ## After `make test`: once more the tests that do more with real sizes and graphs (PACKHOUSE_SHARED_DATA)
	ctest --preset release -L shared_data $(RESULTS)
	@$(PYTHON) tests/report_skipped.py build/release/tests.xml

check: packages  ## The quick tests alone: no sanitizer, no programs from outside (less than 90 s after a build)
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release
	ctest --preset release -L fast $(RESULTS)
	@$(PYTHON) tests/report_skipped.py build/release/tests.xml

conformance: packages  ## Python beside the real frameworks, and wheels on every Python, of pinned packages (gigabytes the first time)
	@$(INSTALL) go
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse-graph packhouse-metis packhouse-partition packhouse_python sampling_draw_cases
	$(foreach environment,$(CONFORMANCE),PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
	  PACKHOUSE_DRAW_CASES=build/release/tests/sampling/sampling_draw_cases \
	  PACKHOUSE_CLI=build/release/bin/packhouse \
	  PACKHOUSE_PARTITION=build/release/service/packhouse-partition \
	  $(PYTHON) -B tests/conformance/environments.py $(environment) -- \
	  $(wildcard tests/conformance/test_$(environment)*.py) tests/conformance/test_examples.py \
	  tests/conformance/test_docs.py &&) true
	PYTHONPATH=build/release/python $(PYTHON) -B tests/conformance/environments.py trainers -- \
	  tests/python/test_torch_batches.py
	PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
	  $(PYTHON) -B tests/conformance/environments.py pyg_links -- tests/conformance/test_pyg_links.py
	PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
	  $(PYTHON) -B -m pytest -q tests/conformance/test_go_client.py
	PACKHOUSED=build/release/service/packhoused $(PYTHON) -B tests/conformance/packaging/matrix.py

# What users import, one page each.
PYTHON_PAGES := packhouse $(addprefix packhouse.,atoms torch pyg jraph tfgnn dgl sampling partition files.reading files.arrow files.frames files.npz files.pickles files.size_files)

docs: packages  ## Python's documentation from its docstrings, in build/docs/python
	cmake --preset release
	cmake --build --preset release --target packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/conformance/environments.py --module pdoc docs -- \
	  --no-show-source -o build/docs/python $(PYTHON_PAGES)

asan: packages  ## All tests with AddressSanitizer and UndefinedBehaviorSanitizer
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan -LE long

tsan: packages  ## The tests that do not link gRPC, with ThreadSanitizer
	cmake --preset tsan -DPACKHOUSE_ALL_THREADS=ON
	cmake --build --preset tsan
	ctest --preset tsan

fuzz: packages  ## Each fuzz target for FUZZ_SECONDS (600)
	cmake --preset fuzz -DPACKHOUSE_FUZZ_SECONDS=$(FUZZ_SECONDS)
	cmake --build --preset fuzz
	ctest --preset fuzz

BENCH_FLAGS ?= --runs 5 --seconds 0.25
# PAGE=docs/performance/MACHINE.md: a benchmark writes what it prints there.
page = $(if $(PAGE),$(PYTHON) -B tests/benchmarks/performance_page.py '$(PAGE)' '$(1)' --)

bench: packages  ## Servers of their own over TCP, beside what gRPC alone can do (some minutes); BENCH_FLAGS=--help, PAGE=docs/performance/MACHINE.md
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse-bench
	$(call page,make bench) build/release/client/bench/packhouse-bench --packhoused build/release/service/packhoused \
	  $(patsubst %,--data '%',$(wildcard $(SHARED_DATA)/graphs/molhiv.npz)) \
	  --json build/release/bench.json $(BENCH_FLAGS)

bench-micro: packages  ## Microbenchmarks of streams, collation, draws, tf.Examples and searches for limits
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhouse_benchmarks packhouse_sampling_benchmarks
	build/release/tests/benchmarks/packhouse_benchmarks
	build/release/tests/benchmarks/packhouse_sampling_benchmarks

bench-rows: packages  ## Rows of tensors in memory, beside an index loop and torch's DataLoader; ROWS_FLAGS=--help, PAGE=...
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(call page,make bench-rows) $(PYTHON) -B tests/benchmarks/tensor_loader.py \
	  --packhoused build/release/service/packhoused $(ROWS_FLAGS)

bench-sampling: packages  ## Draws alone; a graph of OGBN-MAG's shape imported, and its epoch delivered, beside goals; samplers of TF-GNN, DGL and PyG (15 min); SAMPLING_FLAGS=--help, PAGE=...
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse-graph packhouse_python packhouse_sampling_benchmarks
	build/release/tests/benchmarks/packhouse_sampling_benchmarks
	PYTHONPATH=build/release/python $(call page,make bench-sampling) $(PYTHON) -B tests/benchmarks/sampling_epoch.py \
	  --packhoused build/release/service/packhoused --cli build/release/bin/packhouse $(SAMPLING_FLAGS)
	for framework in tfgnn dgl pyg; do \
	  PYTHONPATH=build/release/python $(PYTHON) -B tests/conformance/environments.py \
	    --program tests/benchmarks/sampling_peers.py $$framework -- \
	    --packhoused build/release/service/packhoused || exit; \
	done

READERS_FLAGS ?= --kib 256
bench-readers: packages  ## The Python client's CPU per batch beside opaque bytes, as numpy, PyG and jraph; READERS_FLAGS=--help, PAGE=...
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse-bench packhouse_python
	PYTHONPATH=build/release/python:tests/benchmarks $(call page,make bench-readers) $(PYTHON) -B tests/conformance/environments.py \
	  --module python_client benchmarks -- --packhoused build/release/service/packhoused \
	  --bench build/release/client/bench/packhouse-bench \
	  $(patsubst %,--data '%',$(wildcard $(SHARED_DATA)/graphs/molhiv.npz)) $(READERS_FLAGS)

bench-lane: packages  ## All figures of lanes, and the same by TCP, beside their goals (6 min); LANE_FLAGS=--quick, PAGE=...
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse-bench packhouse_python
	$(PYTHON) -B tests/conformance/environments.py benchmarks -- --version
	PYTHONPATH=build/release/python $(call page,make bench-lane) $(PYTHON) -B tests/benchmarks/lane_figures.py \
	  --packhoused build/release/service/packhoused --bench build/release/client/bench/packhouse-bench \
	  --environments build/environments --data '$(GRAPHS)' $(LANE_FLAGS)

bench-cuda: packages  ## Copies to a CUDA device from slots beside pinned memory, and steps of training, where there is one; CUDA_FLAGS=--help
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/benchmarks/cuda_feeding.py \
	  --packhoused build/release/service/packhoused \
	  $(patsubst %,--data '%',$(wildcard $(GRAPHS))) $(CUDA_FLAGS)

bench-frameworks: packages  ## Epochs beside PyG, torch, jraph, DGL and TF-GNN, of pinned packages (gigabytes the first time); PAGE=...
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse-bench packhouse_python
	$(foreach environment,benchmarks dgl tfgnn,$(PYTHON) -B tests/conformance/environments.py $(environment) -- --version &&) true
	PYTHONPATH=build/release/python $(call page,make bench-frameworks) $(PYTHON) -B tests/benchmarks/frameworks.py \
	  --packhoused build/release/service/packhoused --bench build/release/client/bench/packhouse-bench \
	  --environments build/environments $(patsubst %,--data '%',$(wildcard $(SHARED_DATA)/graphs/molhiv.npz)) $(FRAMEWORKS_FLAGS)

bench-partitioning: packages  ## Cuts beside gpmetis and recorded ones of Mt-KaHyPar, growth to 10^6 edges, and a graph like ogbn-products beside DGL, of pinned packages; PAGE=...
	cmake --preset release
	cmake --build --preset release --target packhouse-graph packhouse-metis packhouse_python
	PACKHOUSE_CLI=build/release/bin/packhouse \
	  $(call page,partition_quality.py) $(PYTHON) -B tests/benchmarks/partition_quality.py --best
	PACKHOUSE_CLI=build/release/bin/packhouse $(call page,partition_growth.py) $(PYTHON) -B tests/benchmarks/partition_growth.py --edges 1e5 1e6
	PACKHOUSE_CLI=build/release/bin/packhouse $(call page,partitioning.py) \
	  $(PYTHON) -B tests/conformance/environments.py --program tests/benchmarks/partitioning.py dgl --

bench-tfgnn: packages  ## tf.Examples: storing TFRecord files, and the decoder beside TF-GNN's own, of pinned packages
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhouse_benchmarks packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/benchmarks/tfgnn_ingest.py
	$(PYTHON) -B tests/conformance/environments.py --program tests/benchmarks/tfgnn_parse.py tfgnn -- \
	  --benchmarks build/release/tests/benchmarks/packhouse_benchmarks

bench-freshness: packages  ## How seldom graphs meet again from epoch to epoch, checked against targets; TABLE_FLAGS=--help
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhouse_freshness_table
	build/release/tests/benchmarks/packhouse_freshness_table $(TABLE_FLAGS)

bench-balance: packages  ## How alike the batches of a step cost, beside fairchem's, MACE's and PyG's samplers; TABLE_FLAGS=--help
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhouse_balance_table
	build/release/tests/benchmarks/packhouse_balance_table $(TABLE_FLAGS)

bench-planning: packages  ## The tables of docs/planning.md, checked against their targets; TABLE_FLAGS=--help
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhouse_planning_table packhouse_certificate_table packhouse_online_table packhouse_drift_table
	build/release/tests/benchmarks/packhouse_planning_table $(TABLE_FLAGS)
	build/release/tests/benchmarks/packhouse_certificate_table
	build/release/tests/benchmarks/packhouse_online_table
	build/release/tests/benchmarks/packhouse_drift_table

# In an environment of tests/conformance/environments.txt, for torch and torch_geometric.
# Or pyg, with an older torch: enough for feeds that compile nothing.
TRAINING_ENVIRONMENT ?= compile
bench-training: packages  ## The GIN of train_pyg.py by each feed and seed (an hour); TRAINING_FLAGS='--seeds 1'
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
	  $(PYTHON) -B tests/conformance/environments.py --program tests/benchmarks/training.py $(TRAINING_ENVIRONMENT) -- \
	  $(SHARED_DATA)/graphs/molhiv.npz --plot docs/gallery/training.svg $(TRAINING_FLAGS)

gallery: packages  ## The plots of docs/gallery, drawn anew
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/benchmarks/gallery.py \
	  --packhoused build/release/service/packhoused --packhouse build/release/bin/packhouse \
	  --histogram $(SHARED_DATA)/hist/molhiv_train.csv

bench-sequences: packages  ## Plans of token sequences beside TRL's and other packers, of pinned packages; SEQUENCES_FLAGS=--help
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
	  $(PYTHON) -B tests/conformance/environments.py --program tests/benchmarks/sequence_packing.py huggingface -- $(SEQUENCES_FLAGS)

bench-device: packages  ## Shapes that a stream gets for a device after 2,000 graphs, checked against their target
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhouse_device_table
	build/release/tests/benchmarks/packhouse_device_table

image:  ## The image of the Dockerfile, by buildah (root; half an hour the first time); then looks at it and runs it
	deploy/image/build.sh $(IMAGE_TAG)
	tests/objects/install_s3_server.sh build/environments/s3_server
	PACKHOUSE_S3_SERVER=build/environments/s3_server/versitygw $(PYTHON) -B tests/deploy/image_check.py build/image

# For `pip install packhouse[server]`: build/wheels. The environment's packages are fetched the first time.
# ARCH=aarch64: for that kind of machine, in build/wheels-aarch64, by a compiler and against libraries of Debian.
FOREIGN := $(filter-out $(shell uname -m),$(ARCH))
WHEEL_BUILD := build/$(or $(FOREIGN),release)
wheel: packages  ## Wheels of the Python package and of the server for Linux, with the libraries it needs, in build/wheels; ARCH=aarch64
	$(if $(FOREIGN),@$(INSTALL) wheel-$(FOREIGN) && deploy/wheel/sysroot.sh build/sysroot/$(FOREIGN))
	cmake --preset $(notdir $(WHEEL_BUILD))
	cmake --build --preset $(notdir $(WHEEL_BUILD)) --target packhoused-wheel packhouse-graph-wheel packhouse-metis
	$(PYTHON) -B tests/conformance/environments.py --program deploy/wheel/build_wheels.py wheel -- \
	  --programs $(WHEEL_BUILD)/deploy/wheel --metis $(WHEEL_BUILD)/service/packhouse-metis \
	  $(if $(FOREIGN),--machine $(FOREIGN) --root build/sysroot/$(FOREIGN)) --output build/wheels$(FOREIGN:%=-%)

wheel-check: wheel  ## The wheels in clean roots of Debian 12 and trixie, without compilers (root; some minutes the first time); ARCH=aarch64: by qemu
ifeq ($(FOREIGN),)
	@$(INSTALL) wheel-check
	$(PYTHON) -B tests/conformance/environments.py --program tests/deploy/wheel_check.py wheel -- build/wheels
else
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/deploy/foreign_wheel_check.py --root build/sysroot/$(FOREIGN) \
	  --packhoused build/release/service/packhoused build/wheels-$(FOREIGN)
endif

soak: packages  ## Epochs while workers and the server are killed: SOAK_FLAGS='--kills 200', see soak.py
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python:tests/support $(PYTHON) -B tests/end_to_end/soak.py \
	  --packhoused build/release/service/packhoused --kills 100 \
	  $(if $(wildcard $(GRAPHS)),--dataset $(GRAPHS) --split $(GRAPHS:.npz=_split.npz)) $(SOAK_FLAGS)

soak-cluster: packages  ## Servers that share jobs over etcd while they, their workers and etcd are killed and stopped: SOAK_FLAGS='--faults 300', see cluster_soak.py
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python
	$(if $(findstring --s3,$(SOAK_FLAGS)),tests/objects/install_s3_server.sh build/environments/s3_server)
	PYTHONPATH=build/release/python PACKHOUSE_S3_SERVER=build/environments/s3_server/versitygw \
	  $(PYTHON) -B tests/end_to_end/cluster_soak.py \
	  --packhoused build/release/service/packhoused --judge-takeover $(SOAK_FLAGS)

soak-drain: packages  ## Rolling restarts under load: SOAK_FLAGS='--seconds 20', see drain_soak.py
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/end_to_end/drain_soak.py \
	  --packhoused build/release/service/packhoused $(SOAK_FLAGS)

# FROM: a commit whose server is running when the update begins; by default the last release, or else
# the commit before this one.
FROM ?= $(or $(shell git describe --tags --abbrev=0 2>/dev/null),HEAD^)
soak-update: packages  ## A rolling update under load, from another version and back: FROM=COMMIT, SOAK_FLAGS as for soak-drain
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python
	tests/end_to_end/build_version.sh '$(FROM)' build/versions
	PYTHONPATH=build/release/python $(PYTHON) -B tests/end_to_end/drain_soak.py \
	  --packhoused build/versions/packhoused --update-to build/release/service/packhoused $(SOAK_FLAGS)

soak-memory: packages  ## Slow readers for ten minutes, memory against the budget: SOAK_FLAGS='--minutes 2'
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(call page,memory_soak.py) $(PYTHON) -B tests/end_to_end/memory_soak.py \
	  --packhoused build/release/service/packhoused $(SOAK_FLAGS)

soak-lanes: packages  ## Clients and servers killed at some thousand points of lanes (an hour); SOAK_FLAGS='-k killed_under'
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python lane_until_killed
	PYTHONPATH=build/release/python:tests/support PACKHOUSED=build/release/service/packhoused PACKHOUSE_ALL_CASES=1 \
	  PACKHOUSE_LANE_UNTIL_KILLED=build/release/tests/end_to_end/lane_until_killed \
	  $(PYTHON) -B -m pytest -q -rs -p no:cacheprovider $(or $(SOAK_FLAGS),-k killed) \
	  tests/end_to_end/lane_kills_test.py tests/python/test_lane_end_to_end.py

abuse: packages  ## Hostile clients against a server, some minutes: ABUSE_FLAGS='--only fairness', see abuse.py
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/abuse/abuse.py \
	  --packhoused build/release/service/packhoused $(ABUSE_FLAGS)

MINUTES ?= 40
# Draws lines and mistakes; with the same seed a run goes on where the one before stopped.
SEED ?= $(shell date +%F)
mutants: packages  ## Small mistakes in lines drawn at random, and which of them no test sees: MINUTES=40 SEED=..., MUTANTS_FLAGS=--help
	cmake --preset release -DPACKHOUSE_TESTS=ON
	cmake --build --preset release
	$(PYTHON) -B tests/mutation/mutants.py --build build/release --minutes $(MINUTES) --seed '$(SEED)' $(MUTANTS_FLAGS)

bench-growth: packages  ## Time and memory for 10^4 to 10^7 graphs (a minute or two); GROWTH_FLAGS=--help
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(call page,growth.py) $(PYTHON) -B tests/benchmarks/growth.py \
	  --packhoused build/release/service/packhoused --plot build/release/growth.svg \
	  $(patsubst %,--histogram '%',$(wildcard $(SHARED_DATA)/hist/molhiv_all.csv)) $(GROWTH_FLAGS)

bench-larger: packages  ## 10^8 graphs in segments with a server of 1 GiB, some minutes and 2 GB of disk; LARGER_FLAGS='--s3'
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/benchmarks/larger_than_memory.py \
	  --packhoused build/release/service/packhoused --sizes '$(SHARED_DATA)/sizes/molpcba_train.csv.gz' $(LARGER_FLAGS)

bench-sweep: packages  ## The server's CPU for four jobs of a sweep beside one, checked against a target (some minutes); SWEEP_FLAGS=--help
	cmake --preset release
	cmake --build --preset release --target packhoused packhouse_python
	PYTHONPATH=build/release/python $(PYTHON) -B tests/benchmarks/sweep.py --packhoused build/release/service/packhoused \
	  $(patsubst %,--data '%',$(wildcard $(SHARED_DATA)/graphs/molhiv.npz)) $(SWEEP_FLAGS)

lint: packages  ## clang-format and clang-tidy, warnings as errors; SINCE=main: clang-tidy of files changed since
	cmake --preset lint -DPACKHOUSE_TESTS=ON
	cmake --build --preset lint --target packhouse_generated
	$(PYTHON) tests/structure/clang_format_test.py .
	$(PYTHON) -B tests/structure/clang_tidy.py build/lint $(if $(SINCE),--since '$(SINCE)')

size:  ## Lines of code by floor, types in headers, long functions, and their goals; SIZE_FLAGS=--functions
	@$(PYTHON) -B tests/structure/code_size.py . $(SIZE_FLAGS)

released-protos: packages  ## The protos of this release, with which `make test` compares later ones
	$(PYTHON) -B tests/structure/buf_test.py --write-released .

clean:  ## Remove all that was built
	rm -rf build demo-output
