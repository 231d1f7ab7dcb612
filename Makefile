# dflow: dynamic dataflow for Lua. `make help` lists what can be asked for.
#
# Everything is built under build/$(MODE); MODE is release, debug, asan, ubsan, tsan, valgrind, or cover for `make mutants`.
PREFIX  ?= /usr/local
DESTDIR ?=
MODE    ?= release
ARCH    ?= native
V       ?= 0
,       := ,
VERSION := 0.1.0
SOMAJOR := 0
FUZZ_SECONDS ?= 60
LUA_V   := 5.4
LUA_PC  ?= lua$(LUA_V)

ifeq ($(origin CC),default)
CC      := cc
endif
BUILD   := build/$(MODE)
Q       := $(if $(filter 1,$(V)),,@)
NPROC   := $(shell nproc 2>/dev/null || echo 2)
# Sub-makes use every core unless the caller already said -j.
JOBS     = $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j$(NPROC))
CCACHE  := $(if $(findstring ccache,$(CC)),ccache)
SUBMAKE  = $(MAKE) --no-print-directory $(JOBS)

CFLAGS_release  := -O2 -g
# An index behind the end of an array whose length the compiler knows ends the process, too; in ubsan it is told where.
CFLAGS_debug    := -O1 -g -DDFLOW_DEBUG -fsanitize=bounds -fsanitize-undefined-trap-on-error
CFLAGS_asan     := -O1 -g -DDFLOW_DEBUG -fsanitize=address -fno-omit-frame-pointer
CFLAGS_ubsan    := -O1 -g -DDFLOW_DEBUG -fsanitize=undefined -fno-sanitize-recover=undefined
CFLAGS_tsan     := -O1 -g -DDFLOW_DEBUG -fsanitize=thread
CFLAGS_valgrind := -O2 -g
CFLAGS_cover   := -O1 -g -DDFLOW_DEBUG
TRACED_cover   := -fsanitize-coverage=trace-pc
CFLAGS_clang   := -O2 -g
CFLAGS_aarch64 := -O2 -g
# Instruction counts are compared between machines, and valgrind knows no AVX-512.
ifeq ($(MODE),valgrind)
ARCH    := $(if $(filter x86_64,$(shell uname -m)),x86-64-v3,native)
endif
KERNEL_CFLAGS_release  := -O3
KERNEL_CFLAGS_valgrind := -O3

PKGS     := openblas zlib libprotobuf-c
CFLAGS   ?=
LDFLAGS  ?=
# libdflow.map exports df_* and nothing else, so calls inside the library need no indirection.
ALL_CFLAGS := -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fPIC \
              -fno-semantic-interposition -MMD -MP $(if $(CI),-Werror) $(CFLAGS_$(MODE)) \
              $(shell pkg-config --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
KERNEL_CFLAGS := $(KERNEL_CFLAGS_$(MODE)) -march=$(ARCH) -fno-math-errno -fno-trapping-math
# A number must not depend on the shape it came in, nor on what the compiler fused.
$(BUILD)/kernels/cpu/elementwise%.o $(BUILD)/kernels/quantize.o $(BUILD)/kernels/resize.o $(BUILD)/kernels/ref/crop.o: KERNEL_CFLAGS += -ffp-contract=off
# A token is two words: put together in a vector register they take twice as many instructions. The engine is one large
# function, in which GCC otherwise moves values from register to register at the borders of its loops (26 instructions a
# trip of the counter loop); and it calls memcpy for a few words.
$(BUILD)/runtime/engine/tokens/executor.o: ALL_CFLAGS += -fno-tree-slp-vectorize
# OpenBLAS is loaded when it is first needed: see kernels/cpu/blas.h.
LIBS       := $(shell pkg-config --libs $(filter-out openblas,$(PKGS)) 2>/dev/null) -lsleef -lm -lpthread -ldl
ifneq ($(findstring clang,$(CC)),)
KERNEL_CFLAGS += -Wno-pass-failed        # loops that it does not vectorise, though it was told that it may
else
$(BUILD)/runtime/engine/tokens/executor.o: ALL_CFLAGS += -fira-region=one -fno-tree-loop-distribute-patterns
endif
LUA_CFLAGS := $(shell pkg-config --cflags $(LUA_PC) 2>/dev/null)
LUA_LIBS   := $(shell pkg-config --libs $(LUA_PC) 2>/dev/null)

LIB_SRC  := $(wildcard runtime/*/*.c runtime/engine/*/*.c kernels/*.c kernels/cpu/*.c kernels/ref/*.c)
PROG_SRC := $(wildcard interp/main.c interp/program*.c interp/prompt*.c)
BIND_SRC := $(filter-out $(PROG_SRC) interp/kernel.c interp/pages.c,$(wildcard interp/*.c))
CSPEC_SRC := $(filter-out spec/fuzz_%.c,$(wildcard spec/*.c))
PROTO    := $(BUILD)/gen/graphdef.pb-c
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o) $(PROTO).o $(if $(TRACED_$(MODE)),$(BUILD)/places.o)
BIND_OBJ := $(BIND_SRC:%.c=$(BUILD)/%.o)
PROG_OBJ := $(PROG_SRC:%.c=$(BUILD)/%.o)
CSPEC    := $(CSPEC_SRC:spec/%.c=$(BUILD)/spec/%)
OBJ      := $(LIB_OBJ) $(BIND_OBJ) $(PROG_OBJ)
STDLIB   := $(wildcard stdlib/dflow.lua $(foreach d,* */* */*/*,stdlib/dflow/$(d).lua))

# The notebook's kernel: a module that `dflow --kernel` loads, where libzmq is.
ZMQ      := $(shell pkg-config --exists libzmq 2>/dev/null && echo $(BUILD)/lua/dflow/sockets.so)

# The pages of `:serve`: a module, too, where libmicrohttpd is.
PAGES    := $(shell pkg-config --exists 'libmicrohttpd >= 0.9.71' 2>/dev/null && echo $(BUILD)/lua/dflow/pages.so)

# Native code for hot loops: a plug-in, where LLVM is.
LLVM_CONFIG ?= $(firstword $(foreach v,19 18 17 16 15,$(shell command -v llvm-config-$(v) 2>/dev/null)))
JIT      := $(BUILD)/libdflow_jit.so
# What it needs of LLVM is linked in where that is there: it loads in a quarter of the time that all of LLVM takes, and is not taken down at exit.
JIT_STATIC = $(if $(filter release debug,$(MODE)),-Wl$(,)--gc-sections$(,)--exclude-libs$(,)ALL$(,)-Bsymbolic$(,)--as-needed$(,)-s$(,)-z$(,)pack-relative-relocs \
  $(shell $(LLVM_CONFIG) --link-static --ldflags --libs native irreader passes orcjit) \
  $(patsubst -lzstd,-l:libzstd.so.1,$(patsubst -lxml2,-l:libxml2.so.2,$(shell $(LLVM_CONFIG) --link-static --system-libs))) -lstdc++,-lno-static-libraries)
# What was compiled is known by the version without asking it.
$(BUILD)/runtime/engine/native/compile.o: ALL_CFLAGS += $(if $(LLVM_CONFIG),-DDFLOW_LLVM='"$(shell $(LLVM_CONFIG) --version)"')

# GPUs: a plug-in. Its own part is plain C, built everywhere; its kernels need nvcc. The driver for tests (spec/cuda) runs the same kernels,
# compiled by the host's compiler. CUDA_ARCHS=all builds for every GPU from sm_80 to sm_100 (code for sm_80 is that of 86 and 89, too); PTX for
# the least of them is always there.
NVCC     ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_ARCHS ?= 90
CUDA_SMS := $(if $(filter all,$(CUDA_ARCHS)),80 90 100,$(CUDA_ARCHS))
CUDA_C   := $(wildcard kernels/cuda/*.c) $(foreach f,array index random reduce nn linalg einsum window walk diagonal blocks segment v1 cells disk resize fake image bands fourier decompose attention,kernels/$(f).c)
CUDA_CU  := $(wildcard kernels/cuda/*.cu)
CUDA     := $(BUILD)/libdflow_cuda.so
CUDA_IMG := $(if $(NVCC),$(BUILD)/cuda/images.o)
# The C++ compiler that goes with $(CC); where it is not there, a cross compiler's say, there is no driver for tests.
ifeq ($(origin CXX),default)
CXX      := $(patsubst cc,c++,$(patsubst %gcc,%g++,$(patsubst %clang,%clang++,$(lastword $(CC)))))
endif
STRICT   := $(if $(shell command -v $(CXX) 2>/dev/null),$(BUILD)/strict/libcuda.so.1)
STRICT_LIBS := $(if $(STRICT),$(addprefix $(BUILD)/strict/,libcublasLt.so.13 libnvrtc.so.13 libcudnn.so.9))

all: lib core program jit cuda $(ZMQ) $(PAGES)   ## build everything (the default)
lib: $(BUILD)/libdflow.so
core: $(BUILD)/lua/dflow/core.so
program: $(if $(PROG_SRC),$(BUILD)/dflow)
cuda: $(CUDA) $(STRICT) $(STRICT_LIBS)
ifeq ($(NVCC),)
	@echo 'dflow: without kernels for GPUs: nvcc is not there' >&2
endif
ifneq ($(LLVM_CONFIG),)
jit: $(JIT)
else
jit:
	@echo 'dflow: without native code for hot loops: llvm-19-dev is not there' >&2
endif

run:                    ## the prompt; without a terminal, a guided tour (installs what is missing)
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) all
	$(Q)if [ -t 0 ] && [ -t 1 ]; then exec $(BUILD)/dflow; else exec $(BUILD)/dflow examples/tour.lua; fi

test:                   ## run the tests in spec/, assertions on (installs what is missing)
	$(Q).ci/deps build test
	$(Q).ci/deps extra
	$(Q)$(SUBMAKE) MODE=release all cspec
	$(Q)$(SUBMAKE) MODE=debug all cspec
	$(Q)spec/run.sh lua5.4:debug luajit:release

bench:                  ## the scoreboard: dflow beside whichever peers are installed, turn about; BENCH="lstm softmax --out FILE" chooses
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) all
	$(Q)DFLOW=$(BUILD)/dflow python3 spec/bench/bench.py $(BENCH)

cuda-abi:               ## compare our declarations of the CUDA driver with the toolkit's cuda.h
	$(Q)$(CC) -std=gnu11 -Wall -Werror -I$(dir $(NVCC))../include -fsyntax-only spec/cuda/abi.c

gpu-strict:             ## run the tests with gpu:0 as the default device, on the driver for tests (GPU_SPECS: these only)
	$(Q).ci/deps build test
	$(Q)$(SUBMAKE) MODE=release all
	$(Q)DFLOW_LANES=$${DFLOW_LANES:-$(NPROC)} DFLOW_SPEC_SECONDS=$${DFLOW_SPEC_SECONDS:-900} DFLOW_CUDA_DRIVER=strict \
	  DFLOW_DEFAULT_DEVICE=gpu:0 SPECS="$${GPU_SPECS:-spec}" spec/run.sh lua5.4:release

gpu-check:              ## all that needs a GPU, in one go: agreement and figures, to spec/bench/gpu/ (DFLOW_CUDA_DRIVER=strict: without one)
	$(Q).ci/deps build test
	$(Q)$(SUBMAKE) all
	$(Q)DFLOW_BUILD=$(BUILD) $(BUILD)/dflow spec/bench/gpu/check.lua

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

figures:                ## the experiments of the paper, as CSV and SVG in examples/paper/figures; FIGURE=fig12 makes one
	$(Q).ci/deps build
	$(Q)$(SUBMAKE) all
	$(Q)$(BUILD)/dflow examples/paper/figures.lua $(FIGURE)

debug:                  ## build with assertions, in build/debug
	$(Q)$(SUBMAKE) MODE=debug all

asan ubsan tsan:        ## build with a sanitizer and run the tests under it
	$(Q).ci/deps build test
	$(Q)$(SUBMAKE) MODE=$@ all cspec
	$(Q)spec/run.sh lua5.4:$@

clang:                  ## build with clang, warnings as errors, and run the tests
	$(Q).ci/deps build test
	$(Q)command -v clang >/dev/null || apt-get install -y -q --no-install-recommends clang >&2
	$(Q)$(SUBMAKE) MODE=clang CC=clang CI=true all cspec
	$(Q)spec/run.sh lua5.4:clang

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
	$(Q)cd build/fuzz/work && LUA_PATH='$(CURDIR)/?.lua;$(CURDIR)/stdlib/?.lua;;' ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	  timeout -k 5 $$(($(FUZZ_SECONDS) * 2 + 600)) ../../asan/dflow $(CURDIR)/spec/fuzz_files.lua all $(FUZZ_SECONDS) \
	  $(if $(FUZZ_SEED),$(FUZZ_SEED),$$(date +%s)) ../files

SOAK_SECONDS ?= 1800
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
	$(Q)DFLOW_ENDINGS=200 SPECS=spec/program/ending_spec.lua spec/run.sh lua5.4:release luajit:release
	$(Q)$(SUBMAKE) MODE=tsan all
	$(Q)DFLOW_STORM=1200 SPECS=spec/engine/storm_spec.lua spec/run.sh lua5.4:tsan
	$(Q)$(SUBMAKE) bare
	$(Q)$(SUBMAKE) gpu-strict
	$(Q)$(SUBMAKE) fuzz FUZZ_SECONDS=$(if $(filter file,$(origin FUZZ_SECONDS)),900,$(FUZZ_SECONDS))

bare:                   ## build and test in a fresh Debian of debootstrap, with nothing but make and git; where root, and BARE_SUITE=bookworm is to be had
	$(Q)spec/bare.sh

mutants:                ## the specs are tested: MUTANTS="count=300 seed=1" changes of the sources, of which they must notice 95 in 100
	$(Q).ci/deps build test
	$(Q)lua5.4 spec/mutants.lua $(MUTANTS) make='$(MAKE) CC="$(CC)"'

lint:                   ## luacheck, cppcheck and the floors
	$(Q).ci/deps build test
	$(Q)luacheck --quiet stdlib examples spec
	$(Q)lua5.4 spec/floors.lua
	$(Q)cppcheck --quiet --std=c11 --enable=warning --inline-suppr --error-exitcode=1 \
	  --suppressions-list=spec/cppcheck.supp -j $(NPROC) runtime kernels interp

deps:                   ## install the Debian packages of .ci/debian-packages
	$(Q).ci/deps build test

# What `install` lays down. The Lua modules go to both Lua versions; LuaJIT's loads libdflow through its FFI.
DEST     := $(DESTDIR)$(PREFIX)
LMOD     := share/lua/$(LUA_V)
CMOD     := lib/lua/$(LUA_V)
JITMOD   := share/lua/5.1
DOC      := share/doc/dflow
EXAMPLES := $(wildcard examples/*.lua examples/data/*)
SOFULL   := libdflow.so.$(VERSION)

install: all            ## install under PREFIX=/usr/local (DESTDIR= for packagers)
	$(Q)install -d $(addprefix $(DEST)/,bin lib/pkgconfig include share/man/man1 $(DOC)/examples/data $(CMOD)/dflow)
	$(Q)install -m 755 $(BUILD)/dflow $(DEST)/bin/dflow
	$(Q)install -m 644 $(BUILD)/libdflow.so $(DEST)/lib/$(SOFULL)
	$(Q)if [ -f $(JIT) ]; then install -m 755 $(JIT) $(DEST)/lib/libdflow_jit.so; fi
	$(Q)if [ -n '$(NVCC)' ]; then install -m 755 $(CUDA) $(DEST)/lib/libdflow_cuda.so; fi
	$(Q)ln -sf $(SOFULL) $(DEST)/lib/libdflow.so.$(SOMAJOR)
	$(Q)ln -sf libdflow.so.$(SOMAJOR) $(DEST)/lib/libdflow.so
	$(Q)install -m 644 $(BUILD)/lua/dflow/core.so $(DEST)/$(CMOD)/dflow/core.so
	$(Q)for m in sockets pages; do [ ! -f $(BUILD)/lua/dflow/$$m.so ] || install -m 644 $(BUILD)/lua/dflow/$$m.so $(DEST)/$(CMOD)/dflow/$$m.so || exit 1; done
	$(Q)install -m 644 runtime/dflow.h $(DEST)/include/dflow.h
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' 'Name: dflow' \
	  'Description: dynamic dataflow: loops, conditionals, TensorArrays and gradients as graphs' \
	  'Version: $(VERSION)' 'Libs: -L$${libdir} -ldflow' 'Cflags: -I$${includedir}' > $(DEST)/lib/pkgconfig/dflow.pc
	$(Q)for d in $(LMOD) $(JITMOD); do for f in $(STDLIB:stdlib/%=%); do \
	  install -D -m 644 stdlib/$$f $(DEST)/$$d/$$f || exit 1; done; done
	$(Q)echo "return '$(PREFIX)/lib/libdflow.so.$(SOMAJOR)'" > $(DEST)/$(JITMOD)/dflow/libpath.lua
	$(Q)$(BUILD)/dflow -E -e "require 'dflow.docs.sources'.write('$(DEST)/$(LMOD)/dflow/docs/places.lua', require 'dflow.program'.folder)"
	$(Q)install -m 644 interp/dflow.1 $(DEST)/share/man/man1/dflow.1
	$(Q)install -D -m 644 interp/completions/dflow.bash $(DEST)/share/bash-completion/completions/dflow
	$(Q)install -D -m 644 interp/completions/_dflow $(DEST)/share/zsh/site-functions/_dflow
	$(Q)install -D -m 644 interp/completions/dflow.fish $(DEST)/share/fish/vendor_completions.d/dflow.fish
	$(Q)install -d $(DEST)/share/dflow/luals/library
	$(Q)$(BUILD)/dflow -E -e "require 'dflow.docs.luacats'.write('$(DEST)/share/dflow/luals/library/dflow.lua', '$(DEST)/share/dflow/luals/config.json')"
	$(Q)install -m 644 README.md LICENSE $(DEST)/$(DOC)
	$(Q)for f in $(EXAMPLES); do install -m 644 $$f $(DEST)/$(DOC)/$$f || exit 1; done
	$(Q)if [ -z '$(DESTDIR)' ]; then ldconfig 2>/dev/null || true; fi

install-kernel:         ## tell Jupyter of dflow: a kernel specification under PREFIX/share/jupyter (after install)
	$(Q)install -d $(DEST)/share/jupyter/kernels/dflow
	$(Q)printf '%s\n' '{ "argv": ["$(PREFIX)/bin/dflow", "--kernel", "{connection_file}"],' \
	  '  "display_name": "dflow (Lua)", "language": "lua", "interrupt_mode": "signal" }' > $(DEST)/share/jupyter/kernels/dflow/kernel.json

uninstall:              ## remove what install put there
	$(Q)rm -f $(addprefix $(DEST)/,bin/dflow lib/libdflow_jit.so lib/libdflow_cuda.so lib/$(SOFULL) lib/libdflow.so.$(SOMAJOR) lib/libdflow.so \
	  include/dflow.h lib/pkgconfig/dflow.pc $(LMOD)/dflow.lua $(JITMOD)/dflow.lua share/man/man1/dflow.1 \
	  share/bash-completion/completions/dflow share/zsh/site-functions/_dflow share/fish/vendor_completions.d/dflow.fish)
	$(Q)rm -rf $(addprefix $(DEST)/,share/jupyter/kernels/dflow $(LMOD)/dflow $(CMOD)/dflow $(JITMOD)/dflow $(DOC) share/dflow)

clean:                  ## remove what was built
	$(Q)rm -rf build

help:                   ## this list
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' Makefile

# ---- how each thing is made ----------------------------------------------------------------------
# Rewritten only when the flags differ, so that a change of flags rebuilds what it touches.
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) $(LDFLAGS)' | cmp -s - $@ || \
	  echo '$(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) $(LDFLAGS)' > $@

$(BUILD)/kernels/%.o: kernels/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) $(TRACED_$(MODE)) -c $< -o $@
$(BUILD)/runtime/%.o: runtime/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(TRACED_$(MODE)) -iquote runtime -iquote . -I$(BUILD)/gen -c $< -o $@
# The messages of TensorFlow's graphs, as C.
$(PROTO).c $(PROTO).h &: runtime/tensorflow/graphdef.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=runtime/tensorflow --c_out=$(@D) $<
$(PROTO).o: $(PROTO).c $(BUILD)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-missing-braces -I$(@D) -c $< -o $@
$(filter $(BUILD)/runtime/%,$(LIB_OBJ)): | $(PROTO).h
$(BUILD)/interp/%.o: interp/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Iruntime $(LUA_CFLAGS) -c $< -o $@

# nodelete, here and below: a Lua state that ends closes the library while threads still stand in it.
$(BUILD)/libdflow.so: $(LIB_OBJ) runtime/libdflow.map
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,libdflow.so.$(SOMAJOR) -Wl,--version-script=runtime/libdflow.map \
	  -Wl,-z,nodelete -Wl,--no-undefined $(LDFLAGS) $(LIB_OBJ) $(LIBS) -o $@
	@ln -sf libdflow.so $(BUILD)/libdflow.so.$(SOMAJOR)
# It links to nothing of libdflow, which loads it: runtime/engine/native/plugin.h.
$(JIT): $(BUILD)/runtime/engine/native/llvm/jit.o
	$(Q)$(call link-jit,$(JIT_STATIC)) 2>/dev/null || $(call link-jit,$(shell $(LLVM_CONFIG) --ldflags --libs))
link-jit = $(CC) $(ALL_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $< $(1) -o $@
$(BUILD)/runtime/engine/native/llvm/jit.o: ALL_CFLAGS += -fvisibility=hidden $(shell $(LLVM_CONFIG) --cflags)
$(BUILD)/runtime/engine/native/llvm/jit.o: TRACED_cover :=
-include $(BUILD)/runtime/engine/native/llvm/jit.d
# It links to nothing of libdflow and to nothing of CUDA: kernels/device.h. DFK_DEVICE: kernels/move.h.
$(BUILD)/cuda/%.o: kernels/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fvisibility=hidden -DDFK_DEVICE -c $< -o $@
$(CUDA): $(CUDA_C:kernels/%.c=$(BUILD)/cuda/%.o) $(CUDA_IMG) $(BUILD)/cuda/headers.o
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-z,nodelete -Wl,--no-undefined $(LDFLAGS) $^ -lpthread -ldl -lm -o $@
# For every mode the same. Numbers must not depend on what a compiler fuses; denormal floats are zeros, as in a run on the CPU, and quotients
# and roots rounded as they are there.
NVCC_FLAGS := -std=c++17 -O3 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true -diag-suppress 186 --threads 0
build/cuda/flags: force
	@mkdir -p $(@D)
	@echo '$(NVCC_FLAGS) $(CUDA_SMS)' | cmp -s - $@ || echo '$(NVCC_FLAGS) $(CUDA_SMS)' > $@
$(CUDA_CU:kernels/cuda/%.cu=build/cuda/%.fatbin): build/cuda/flags
build/cuda/%.fatbin: kernels/cuda/%.cu $(wildcard kernels/cuda/*.cuh kernels/cuda/*.inc) kernels/cuda/params.h kernels/expressions.h kernels/formulas.h \
  kernels/philox.h
	@mkdir -p $(@D)
	$(Q)nice $(NVCC) $(NVCC_FLAGS) -fatbin $(foreach a,$(CUDA_SMS),-gencode arch=compute_$(a),code=sm_$(a)) \
	  -gencode arch=compute_$(firstword $(CUDA_SMS)),code=compute_$(firstword $(CUDA_SMS)) $< -o $@.new && mv $@.new $@
# A family's own headers are nobody else's.
$(foreach f,attention boxes rejection_sampling float8 loop matrix,$(eval build/cuda/$(f).fatbin: kernels/cuda/$(f).h))
build/cuda/jacobi.fatbin: kernels/cuda/matrix.h
build/cuda/reduce.fatbin build/cuda/complex.fatbin: kernels/cuda/pieces.h
build/cuda/fourier.fatbin: kernels/cuda/numerics.h
build/cuda/rejection_sampling.fatbin: kernels/rejection.h kernels/truncated.h
# What tells conditional nodes where to go calls NVIDIA's device runtime, which it is linked with.
build/cuda/graph_conditionals.fatbin: kernels/cuda/graph_conditionals.cu $(wildcard kernels/cuda/*.cuh) kernels/cuda/params.h kernels/cuda/loop.h
	@mkdir -p $(@D)
	$(Q)nice $(NVCC) $(NVCC_FLAGS) -rdc=true -c \
	  $(foreach a,$(CUDA_SMS),-gencode arch=compute_$(a),code=sm_$(a)) $< -o $(@:.fatbin=.o)
	$(Q)nice $(NVCC) -dlink -fatbin $(foreach a,$(CUDA_SMS),-gencode arch=compute_$(a),code=sm_$(a)) $(@:.fatbin=.o) -lcudadevrt -o $@.new && mv $@.new $@
$(BUILD)/cuda/images.o: $(CUDA_CU:kernels/cuda/%.cu=build/cuda/%.fatbin)
	@mkdir -p $(@D)
	$(Q){ for f in $^; do n=$$(basename $$f .fatbin); \
	  printf '.section .rodata\n.balign 64\nimage_%s: .incbin "%s"\n.byte 0\n' $$n $$f; done; \
	  printf '.section .data.rel.ro,"aw"\n.balign 8\n.globl dfc_images\n.hidden dfc_images\ndfc_images:\n'; \
	  for f in $(filter-out %/graph_conditionals.fatbin,$^); do printf '.quad image_%s\n' $$(basename $$f .fatbin); done; printf '.quad 0\n'; \
	  printf '.globl dfc_image_graph_conditionals\n.hidden dfc_image_graph_conditionals\ndfc_image_graph_conditionals: .quad image_graph_conditionals\n.section .note.GNU-stack,"",@progbits\n'; } > $(@:.o=.s)
	$(Q)$(CC) -c $(@:.o=.s) -o $@
# What kernels that are written at run time include, under the names by which they do.
CUDA_HEADERS := functions.cuh=kernels/cuda/functions.cuh reduce.cuh=kernels/cuda/reduce.cuh special.cuh=kernels/cuda/special.cuh kernel.cuh=kernels/cuda/kernel.cuh params.h=kernels/cuda/params.h ../expressions.h=kernels/expressions.h formulas.h=kernels/formulas.h
$(BUILD)/cuda/headers.o: $(foreach h,$(CUDA_HEADERS),$(lastword $(subst =, ,$(h)))) $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q){ printf '.section .rodata\n'; i=0; for h in $(CUDA_HEADERS); do \
	  printf 'name_%d: .asciz "%s"\ntext_%d: .incbin "%s"\n.byte 0\n' $$i $${h%%=*} $$i $${h#*=}; i=$$((i + 1)); done; \
	  for t in header_names=name headers=text; do \
	  printf '.section .data.rel.ro,"aw"\n.balign 8\n.globl dfc_%s\n.hidden dfc_%s\ndfc_%s:\n' $${t%%=*} $${t%%=*} $${t%%=*}; \
	  i=0; for h in $(CUDA_HEADERS); do printf '.quad %s_%d\n' $${t#*=} $$i; i=$$((i + 1)); done; printf '.quad 0\n'; done; \
	  printf '.section .note.GNU-stack,"",@progbits\n'; } > $(@:.o=.s)
	$(Q)$(CC) -c $(@:.o=.s) -o $@
# The driver for tests: the .cu files are C++ to it.
STRICT_CXXFLAGS := -std=c++17 -O1 -g -fPIC -fsanitize=alignment -fsanitize-undefined-trap-on-error -ffp-contract=off -fvisibility=hidden -U_FORTIFY_SOURCE -Wall -Wno-unused-parameter -Wno-type-limits -Wno-enum-compare -MMD -MP \
  $(if $(CI),-Werror) -Ispec/cuda
STRICT_OBJ := $(CUDA_CU:kernels/cuda/%.cu=$(BUILD)/strict/%.o) $(addprefix $(BUILD)/strict/,driver.o block.o races.o)
# The compiler tells spec/cuda/races.cc of every place that a kernel touches.
STRICT_TOLD := -fsanitize=thread $(if $(findstring clang,$(CXX)),-mllvm -tsan-instrument-func-entry-exit=0,--param=tsan-instrument-func-entry-exit=0)
$(BUILD)/strict/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(CXX) $(STRICT_CXXFLAGS) $(STRICT_TOLD) -x c++ -c $< -o $@
$(BUILD)/strict/%.o: spec/cuda/%.cc
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(CXX) $(STRICT_CXXFLAGS) -c $< -o $@
ifneq ($(STRICT),)
$(STRICT): $(STRICT_OBJ)
	$(Q)$(CXX) -shared -Wl,-soname,libcuda.so.1 $^ -lpthread -o $@
endif
# The libraries beside it, for tests as it is.
$(BUILD)/strict/libcublasLt.so.13: $(BUILD)/strict/blas.o
$(BUILD)/strict/libnvrtc.so.13: $(BUILD)/strict/nvrtc.o
$(BUILD)/strict/libcudnn.so.9: $(BUILD)/strict/dnn.o $(BUILD)/strict/dnn_layers.o
$(STRICT_LIBS): $(STRICT)
	$(Q)$(CXX) -shared -Wl,-soname,$(@F) $(filter-out $(STRICT),$^) $(STRICT) -Wl,-rpath,'$$ORIGIN' -o $@
$(BUILD)/strict/blas.o: STRICT_CXXFLAGS += -O3
$(BUILD)/strict/nvrtc.o: STRICT_CXXFLAGS += -DSTRICT_CXX='"$(lastword $(CXX))"' -DSTRICT_ROOT='"$(CURDIR)"' \
  -DSTRICT_TOLD='$(foreach w,$(STRICT_TOLD),"$w",)'
# Small wrong programs that the driver must catch.
$(BUILD)/spec/strict_zoo: spec/cuda/zoo.cc $(BUILD)/strict/zoo_kernels.o $(STRICT) $(STRICT_LIBS)
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(CXX) -std=c++17 -O1 -g -Wall $(if $(CI),-Werror) $< $(BUILD)/strict/zoo_kernels.o $(STRICT) $(STRICT_LIBS) \
	  -Wl,-rpath,'$$ORIGIN/../strict' -o $@
$(BUILD)/strict/zoo_kernels.o: STRICT_CXXFLAGS += $(STRICT_TOLD)
.PHONY: cuda cuda-abi gpu-check gpu-strict
-include $(STRICT_OBJ:.o=.d) $(BUILD)/strict/blas.d $(BUILD)/strict/nvrtc.d $(BUILD)/strict/dnn.d $(BUILD)/strict/dnn_layers.d $(BUILD)/strict/zoo_kernels.d $(CUDA_C:kernels/%.c=$(BUILD)/cuda/%.d)
# The run paths are those of the build tree and, after the colon, of an installation.
$(BUILD)/lua/dflow/core.so: $(BIND_OBJ) $(BUILD)/libdflow.so
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $(BIND_OBJ) -L$(BUILD) -ldflow \
	  -Wl,-rpath,'$$ORIGIN/../..:$$ORIGIN/../../..' -o $@
$(BUILD)/lua/dflow/sockets.so: interp/kernel.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $< $(shell pkg-config --cflags --libs libzmq 2>/dev/null) -o $@
$(BUILD)/lua/dflow/pages.so: interp/pages.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $< $(shell pkg-config --cflags --libs libmicrohttpd 2>/dev/null) -o $@
$(BUILD)/dflow: $(PROG_OBJ) $(BIND_OBJ) $(BUILD)/libdflow.so
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(PROG_OBJ) $(BIND_OBJ) -L$(BUILD) -ldflow \
	  -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib' -Wl,-E $(LUA_LIBS) -lreadline -lm -ldl -o $@

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

-include $(OBJ:.o=.d) $(TRACED:%=$(BUILD)/traced/%.d)
.PHONY: all lib core program jit cspec run test nightly mutants figures bench bench-quick bench-peers differential debug asan ubsan tsan clang aarch64 fuzz bare lint deps install uninstall clean \
  help force
