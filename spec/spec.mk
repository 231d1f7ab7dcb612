# spec.mk: what is run now and then, and the programs of the tests. Included by the Makefile.
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 1800

bench:                  ## the scoreboard: dflow beside whichever peers are installed, turn about; BENCH="lstm softmax --out FILE" chooses
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) all
	$(Q)DFLOW=$(BUILD)/dflow python3 spec/bench/bench.py $(BENCH)

bench-quick:            ## instructions per iteration beside those written down, which COUNTS=write writes anew
	$(Q).ci/deps build test
	$(Q)lua5.4 spec/bench/quick.lua $(COUNTS)

bench-peers:            ## install TensorFlow, JAX, PyTorch and ONNX Runtime under build/peers, for bench
	$(Q)python3 -m venv build/peers/tf && build/peers/tf/bin/pip install --quiet 'tensorflow-cpu==2.15.*'
	$(Q)python3 -m venv build/peers/jt && build/peers/jt/bin/pip install --quiet jax onnx onnxruntime
	$(Q)build/peers/jt/bin/pip install --quiet torch --index-url https://download.pytorch.org/whl/cpu || build/peers/jt/bin/pip install --quiet torch

# What was exported is run by each Python of PYTHON that has TensorFlow, or onnx and onnxruntime; a seed per night.
differential: PYTHON ?= build/peers/tf/bin/python build/peers/jt/bin/python
differential: SEED ?= $(shell date +%Y%m%d)
differential: COUNT ?= 1000
differential:           ## COUNT=1000 random programs of SEED, exported, in TensorFlow and ONNX Runtime (PYTHON="python …", see bench-peers)
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) all
	$(Q)rm -rf build/differential && mkdir -p build/differential
	$(Q)wrong=0; $(BUILD)/dflow spec/differential/write.lua build/differential $(SEED) $(COUNT) || wrong=1; for python in $(PYTHON); do $$python spec/differential/check.py build/differential || wrong=1; done; exit $$wrong

figures:                ## the papers' experiments, as CSV and SVG and one page in examples/paper/figures; FIGURE=fig12 makes one
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) all
	$(Q)$(BUILD)/dflow examples/paper/figures.lua $(FIGURE)

asan ubsan tsan:        ## build with a sanitizer and run the tests under it
	$(Q).ci/deps build test
	$(Q)$(SUBMAKE) MODE=$@ all cspec
	$(Q)DFLOW_TESTS=all spec/run.sh lua5.4:$@

clang:                  ## build with clang, warnings as errors, and run the tests
	$(Q).ci/deps build test
	$(Q)command -v clang >/dev/null || apt-get install -y -q --no-install-recommends clang >&2
	$(Q)$(SUBMAKE) MODE=clang CC=clang CI=true all cspec
	$(Q)DFLOW_TESTS=all spec/run.sh lua5.4:clang

aarch64:                ## build with a cross compiler and run SPECS (two files) under qemu-user
	$(Q).ci/aarch64

fuzz:                   ## random calls, damaged graphs and files, each for FUZZ_SECONDS=60, under the address sanitizer; build/fuzz keeps what was new
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) MODE=asan build/asan/fuzz_api build/asan/fuzz_graphdef
	$(Q)build/asan/fuzz_api $(FUZZ_SECONDS) "$(FUZZ_SEED)" $(wildcard spec/graphs/*.pb spec/graphs/gradients/*.pb)
	$(Q)mkdir -p build/fuzz/graphs build/fuzz/work
	$(Q)FUZZ_SEED=$(FUZZ_SEED) FUZZ_CORPUS=build/fuzz/graphs build/asan/fuzz_graphdef $(FUZZ_SECONDS) spec/graphs build/fuzz/graphs
	$(Q)$(SUBMAKE) MODE=asan program
	$(Q)spec/misuse.sh build/asan/dflow $(FUZZ_SECONDS) $(FUZZ_SEED)
	$(Q)ASAN_OPTIONS=detect_leaks=0 build/asan/dflow spec/kernel_messages.lua $$(($(FUZZ_SECONDS) * 50)) $(if $(FUZZ_SEED),$(FUZZ_SEED),$$(date +%s))
	$(Q)cd build/fuzz/work && LUA_PATH='$(CURDIR)/?.lua;$(CURDIR)/stdlib/?.lua;;' ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	  timeout -k 5 $$(($(FUZZ_SECONDS) * 2 + 600)) ../../asan/dflow $(CURDIR)/spec/fuzz_files.lua all $(FUZZ_SECONDS) \
	  $(if $(FUZZ_SEED),$(FUZZ_SEED),$$(date +%s)) ../files

nightly:                ## what takes hours: every allocation fails in turn, an hour of fuzz, SOAK_SECONDS=1800 of everything in flat memory
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) MODE=release all
	$(Q)$(SUBMAKE) MODE=debug all
	$(Q)for times in 1 2 100000; do \
	  LUA_PATH='./?.lua;stdlib/?.lua;;' build/debug/dflow spec/memory/failing.lua 1 $$times || exit 1; done
	$(Q)LUA_PATH='./?.lua;stdlib/?.lua;;' build/release/dflow spec/late.lua all
	$(Q)LUA_PATH='./?.lua;stdlib/?.lua;;' build/release/dflow spec/memory/soak.lua $(SOAK_SECONDS)
	$(Q)LUA_PATH='./?.lua;stdlib/?.lua;;' build/release/dflow spec/autograph/random_lua.lua 20000 1
	$(Q)$(SUBMAKE) MODE=release cspec
	$(Q)DFLOW_PROGRAMS=1000 SPECS=spec/device/random_placement_spec.lua spec/run.sh lua5.4:release
	$(Q)DFLOW_DEATHS=200 SPECS=spec/machines/deaths_spec.lua spec/run.sh lua5.4:debug
	$(Q)DFLOW_ENDINGS=200 SPECS=spec/program/ending_spec.lua spec/run.sh lua5.4:release luajit:release
	$(Q)$(SUBMAKE) MODE=tsan all cspec
	$(Q)DFLOW_STORM=1200 SPECS='spec/engine/storm_spec.lua spec/machines' spec/run.sh lua5.4:tsan
	$(Q)$(SUBMAKE) bare
	$(Q)$(SUBMAKE) gpu-strict
	$(Q)if $(MODELS_PYTHON) -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then $(SUBMAKE) models; \
	  else echo 'no onnxruntime: make models is left out'; fi
	$(Q)$(SUBMAKE) fuzz FUZZ_SECONDS=$(if $(filter file,$(origin FUZZ_SECONDS)),900,$(FUZZ_SECONDS))

MODELS_PYTHON ?= python3
models:                 ## real ONNX models of packages (spec/models/packages.txt) beside ONNX Runtime: run, agree, time ratio; MODELS_PYTHON has numpy and it
	$(Q)$(SUBMAKE) MODE=release all
	$(Q)mkdir -p build/models
	$(Q)LUA_PATH='./?.lua;stdlib/?.lua;;' $(MODELS_PYTHON) spec/models/packages.py build/release/dflow build/models

bare:                   ## build and test in a fresh Debian of debootstrap, with nothing but make and git; where root, and BARE_SUITE=bookworm is to be had
	$(Q)spec/bare.sh

size:                   ## lines of code and of tests, upward calls, seconds of tests, each beside what is to be reached
	$(Q)lua5.4 spec/size.lua

mutants:                ## the specs are tested: MUTANTS="count=300 seed=1" changes of the sources, of which they must notice 95 in 100
	$(Q).ci/deps build test
	$(Q)lua5.4 spec/mutants.lua $(MUTANTS) make='$(MAKE) CC="$(CC)"'

# ---- programs of the tests ------------------------------------------------------------
CSPEC_SRC := $(filter-out spec/fuzz_%.c,$(wildcard spec/*.c))
CSPEC    := $(CSPEC_SRC:spec/%.c=$(BUILD)/spec/%)
# Programs of spec/ in C link the objects themselves, so that they may also call what the library keeps inside.
cspec: $(CSPEC) $(BUILD)/pty $(if $(STRICT),$(BUILD)/spec/strict_zoo)
$(BUILD)/spec/%: spec/%.c $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -iquote runtime -iquote . -iquote $(BUILD)/gen $(LDFLAGS) $< $(LIB_OBJ) $(LIBS) -o $@
# Which places of the library and which lines of stdlib/ a spec reads: spec/cover/cover.lua.
$(BUILD)/places.o: spec/cover/places.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c $< -o $@
$(BUILD)/lua/dflow/lines.so: spec/cover/lines.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(LUA_CFLAGS) -shared $(LDFLAGS) $< -o $@
# A device that counts: a plug-in, as those for GPUs are.
$(BUILD)/spec/counter: | $(BUILD)/counter/libdflow_cuda.so
$(BUILD)/counter/libdflow_cuda.so: spec/counter/device.c spec/counter/counter.h kernels/device.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -fvisibility=hidden -iquote . -shared -Wl,-soname,libdflow_cuda.so $(LDFLAGS) $< -o $@
# A terminal for the specs to type at; see spec/typist.lua.
$(BUILD)/pty: spec/pty/pty.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -Wall -Wextra $< -lutil -o $@
$(BUILD)/fuzz_api: spec/fuzz_api.c spec/fuzz_graphs.c spec/fuzz_runs.c spec/fuzz.h $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -Iruntime $(LDFLAGS) $(filter %.c %.o,$^) $(LIBS) -o $@
# The files that read graphs say where they have been.
TRACED := graphdef graphdef_text import import_attr recover_flow recover_flow_build
$(BUILD)/traced/%.o: runtime/tensorflow/%.c $(BUILD)/flags | $(PROTO).h
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize-coverage=trace-pc -iquote runtime -iquote . -I$(BUILD)/gen -c $< -o $@
$(BUILD)/fuzz_graphdef: spec/fuzz_graphdef.c spec/fuzz_structured.c spec/fuzz_structured.h $(TRACED:%=$(BUILD)/traced/%.o) $(LIB_OBJ)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -Iruntime -iquote . -I$(BUILD)/gen $(LDFLAGS) $(filter-out $(TRACED:%=$(BUILD)/runtime/tensorflow/%.o),$(filter %.c %.o,$^)) $(LIBS) -o $@

-include $(TRACED:%=$(BUILD)/traced/%.d)
.PHONY: asan ubsan tsan clang aarch64 bare bench bench-quick bench-peers differential figures fuzz mutants nightly models cspec
