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
LUA_V   := 5.4
LUA_PC  ?= lua$(LUA_V)
BUILD   := build/$(MODE)
Q       := $(if $(filter 1,$(V)),,@)
NPROC   := $(shell nproc 2>/dev/null || echo 2)
# Sub-makes use every core unless the caller already said -j.
JOBS     = $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j$(NPROC))
SUBMAKE  = $(MAKE) --no-print-directory $(JOBS)

PARTS   := runtime/build.mk kernels/cuda/cuda.mk interp/install.mk spec/spec.mk
.DEFAULT_GOAL := all
include $(PARTS)

# Says how many files there are to compile that were never compiled.
compiles = n=$(words $(filter-out $(wildcard $(OBJ)),$(OBJ))); [ $$n = 0 ] || echo "dflow: compiles $$n files of C on $(NPROC) cores into $(BUILD)"

all: lib core program jit cuda $(ZMQ) $(PAGES) $(MPI)   ## build everything (the default)

run:                    ## the prompt; without a terminal, a guided tour (installs what is missing)
	$(Q).ci/deps build
	@$(compiles)
	$(Q)$(SUBMAKE) lib core program jit $(ZMQ) $(PAGES) $(MPI)
	$(Q)if [ -t 0 ] && [ -t 1 ]; then exec $(BUILD)/dflow; else exec $(BUILD)/dflow examples/tour.lua; fi

# Both builds, and the programs of the tests.
tested   = $(Q).ci/deps build test && .ci/deps extra && $(SUBMAKE) MODE=release all cspec && $(SUBMAKE) MODE=debug all cspec

test:                   ## run the tests that matter for every change, assertions on, under both Luas: some minutes (installs what is missing)
	@$(compiles)
	$(tested)
	$(Q)spec/run.sh lua5.4:debug luajit:release

test-all:               ## run all tests, as CI does
	@$(compiles)
	$(tested)
	$(Q)DFLOW_TESTS=all spec/run.sh lua5.4:debug luajit:release

# A sample of everything.
SMOKE   := spec/graph spec/resource spec/house/house_spec.lua spec/house/floors_spec.lua $(wildcard $(addprefix spec/,$(addsuffix _spec.lua, \
  front/errors front/dtypes front/mistakes gradient/gradients engine/primitives engine/executor engine/session ops/ops_math ops/ops_array \
  device/devices inspect/why exchange/import exchange/export training/minimise program/command repl/repl)))

check:                  ## less than a minute of tests, under Lua 5.4; SPEC=spec/engine: these folders or files, under both Luas
ifdef SPEC
	$(tested)
	$(Q)SPECS='$(SPEC)' spec/run.sh lua5.4:debug luajit:release
else
	$(Q)$(SUBMAKE) MODE=debug lib core program jit cspec
	$(Q)SPECS='$(SMOKE)' spec/run.sh lua5.4:debug
endif

debug:                  ## build with assertions, in build/debug
	$(Q)$(SUBMAKE) MODE=debug all

lint:                   ## luacheck, cppcheck and the floors
	$(Q).ci/deps build test
	$(Q)luacheck --quiet stdlib examples spec
	$(Q)lua5.4 spec/floors.lua
	$(Q)cppcheck --quiet --std=c11 --enable=warning --inline-suppr --error-exitcode=1 \
	  --suppressions-list=spec/cppcheck.supp -j $(NPROC) runtime kernels interp

deps:                   ## install the Debian packages of .ci/debian-packages
	$(Q).ci/deps build test

clean:                  ## remove what was built
	$(Q)rm -rf build $(OUTPUTS)

help:                   ## this list
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' Makefile $(PARTS)

.PHONY: all run test test-all check debug lint deps clean help
