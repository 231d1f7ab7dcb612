# build.mk: how the library, the program, the bindings and the plug-in for native code are made. Included by the Makefile.
ifeq ($(origin CC),default)
CC      := cc
endif
CCACHE  := $(if $(findstring ccache,$(CC)),ccache)

CFLAGS_release  := -O2 -g
# An index behind the end of an array whose length the compiler knows ends the process, too; in ubsan it is told where.
CFLAGS_debug    := -O1 -g -DDFLOW_DEBUG -fsanitize=bounds -fsanitize-undefined-trap-on-error
CFLAGS_asan     := -O1 -g -DDFLOW_DEBUG -fsanitize=address -fno-omit-frame-pointer
CFLAGS_ubsan    := -O1 -g -DDFLOW_DEBUG -fsanitize=undefined -fno-sanitize-recover=undefined
CFLAGS_tsan     := -O1 -g -DDFLOW_DEBUG -fsanitize=thread
CFLAGS_valgrind := -O2 -g
CFLAGS_package  := -O2 -g
CFLAGS_cover   := -O1 -g -DDFLOW_DEBUG
TRACED_cover   := -fsanitize-coverage=trace-pc
CFLAGS_clang   := -O2 -g
CFLAGS_aarch64 := -O2 -g
# Instruction counts are compared between machines, and valgrind knows no AVX-512; a package is for other machines.
ifneq ($(filter valgrind package,$(MODE)),)
ARCH    := $(if $(filter x86_64,$(shell uname -m)),x86-64-v3,native)
endif
KERNEL_CFLAGS_release  := -O3
KERNEL_CFLAGS_valgrind := -O3
KERNEL_CFLAGS_package  := -O3

PKGS     := openblas zlib libprotobuf-c
CFLAGS   ?=
LDFLAGS  ?=
# libdflow.map exports df_* and nothing else, so calls inside the library need no indirection.
ALL_CFLAGS := -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fPIC \
              -fno-semantic-interposition -MMD -MP $(if $(CI),-Werror) $(CFLAGS_$(MODE)) \
              $(shell pkg-config --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
# GCC's tuning for some processors (Zen 2) fuses no product into a sum that is the only one of its loop: then a row alone
# is rounded otherwise than a row among others.
FUSES := $(shell $(CC) --param=avoid-fma-max-bits=0 -E -x c /dev/null >/dev/null 2>&1 && echo --param=avoid-fma-max-bits=0)
KERNEL_CFLAGS := $(KERNEL_CFLAGS_$(MODE)) -march=$(ARCH) -fno-math-errno -fno-trapping-math $(FUSES)
# A number must not depend on the shape it came in, nor on what the compiler fused.
$(BUILD)/kernels/cpu/elementwise%.o $(BUILD)/kernels/quantize.o $(BUILD)/kernels/requantize.o $(BUILD)/kernels/cpu/quantize.o \
  $(BUILD)/kernels/ref/quantize.o $(BUILD)/kernels/ref/quantize_and_dequantize.o \
  $(BUILD)/kernels/resize.o $(BUILD)/kernels/ref/crop.o: KERNEL_CFLAGS += -ffp-contract=off
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
PROTO    := $(BUILD)/gen/graphdef.pb-c
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o) $(PROTO).o $(if $(TRACED_$(MODE)),$(BUILD)/places.o)
BIND_OBJ := $(BIND_SRC:%.c=$(BUILD)/%.o)
PROG_OBJ := $(PROG_SRC:%.c=$(BUILD)/%.o)
OBJ      := $(LIB_OBJ) $(BIND_OBJ) $(PROG_OBJ)
OUTPUTS  := stdlib/dflow/docs/outputs.lua
STDLIB   := $(filter-out $(OUTPUTS),$(wildcard stdlib/dflow.lua $(foreach d,* */* */*/*,stdlib/dflow/$(d).lua))) $(OUTPUTS)

# The notebook's kernel: a module that `dflow --kernel` loads, where libzmq is.
ZMQ      := $(shell pkg-config --exists libzmq 2>/dev/null && echo $(BUILD)/lua/dflow/sockets.so)

# The pages of `:serve`: a module, too, where libmicrohttpd is.
PAGES    := $(shell pkg-config --exists 'libmicrohttpd >= 0.9.71' 2>/dev/null && echo $(BUILD)/lua/dflow/pages.so)

# Native code for hot loops: a plug-in, where LLVM is.
LLVM_CONFIG ?= $(firstword $(foreach v,19 18 17 16 15,$(shell command -v llvm-config-$(v) 2>/dev/null)))
JIT      := $(BUILD)/libdflow_jit.so
# What it needs of LLVM is linked in where that is there: it loads in a quarter of the time that all of LLVM takes, and is not taken down at exit.
JIT_STATIC = $(if $(filter release debug package,$(MODE)),-Wl$(,)--gc-sections$(,)--exclude-libs$(,)ALL$(,)-Bsymbolic$(,)--as-needed$(,)-s$(,)-z$(,)pack-relative-relocs \
  $(shell $(LLVM_CONFIG) --link-static --ldflags --libs native irreader passes orcjit) \
  $(patsubst -lzstd,-l:libzstd.so.1,$(patsubst -lxml2,-l:libxml2.so.2,$(shell $(LLVM_CONFIG) --link-static --system-libs))) -lstdc++,-lno-static-libraries)
# What was compiled is known by the version without asking it.
$(BUILD)/runtime/engine/native/compile.o: ALL_CFLAGS += $(if $(LLVM_CONFIG),-DDFLOW_LLVM='"$(shell $(LLVM_CONFIG) --version)"')

# Messages between hosts under mpirun: a plug-in for each MPI whose compiler is there.
MPI      := $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m) 2>/dev/null),$(BUILD)/libdflow_mpi_$(m).so))

# Says what was linked, and how large it is.
linked = @printf '  %-34s %s\n' '$@' "$$(du -h '$@' | cut -f1)B"

lib: $(BUILD)/libdflow.so
core: $(BUILD)/lua/dflow/core.so $(OUTPUTS)
program: $(if $(PROG_SRC),$(BUILD)/dflow)
ifneq ($(LLVM_CONFIG),)
jit: $(JIT)
else
jit:
	@echo 'dflow: without native code for hot loops: llvm-19-dev is not there' >&2
endif

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
	$(linked)
# It links to nothing of libdflow, which loads it: runtime/engine/native/plugin.h.
$(JIT): $(BUILD)/runtime/engine/native/llvm/jit.o
	$(Q)$(call link-jit,$(JIT_STATIC)) 2>/dev/null || $(call link-jit,$(shell $(LLVM_CONFIG) --ldflags --libs))
	$(linked)
link-jit = $(CC) $(ALL_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $< $(1) -o $@
$(BUILD)/runtime/engine/native/llvm/jit.o: ALL_CFLAGS += -fvisibility=hidden $(shell $(LLVM_CONFIG) --cflags)
$(BUILD)/runtime/engine/native/llvm/jit.o: TRACED_cover :=
-include $(BUILD)/runtime/engine/native/llvm/jit.d
$(BUILD)/libdflow_mpi_%.so: runtime/cluster/mpi/plugin.c runtime/cluster/mpi/plugin.h $(BUILD)/flags
	$(Q)mpicc.$* -std=gnu11 -Wall -Wextra $(CFLAGS_$(MODE)) $(CFLAGS) -fPIC -fvisibility=default -shared $(LDFLAGS) $< -o $@
	$(linked)
# The run paths are those of the build tree, of an installation, and of a rock.
$(BUILD)/lua/dflow/core.so: $(BIND_OBJ) $(BUILD)/libdflow.so
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $(BIND_OBJ) -L$(BUILD) -ldflow \
	  -Wl,-rpath,'$$ORIGIN/../..:$$ORIGIN/../../..:$$ORIGIN/..' -o $@
$(BUILD)/lua/dflow/sockets.so: interp/kernel.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $< $(shell pkg-config --cflags --libs libzmq 2>/dev/null) -o $@
$(BUILD)/lua/dflow/pages.so: interp/pages.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -shared -Wl,-z,nodelete $(LDFLAGS) $< $(shell pkg-config --cflags --libs libmicrohttpd 2>/dev/null) -o $@
$(BUILD)/dflow: $(PROG_OBJ) $(BIND_OBJ) $(BUILD)/libdflow.so
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(PROG_OBJ) $(BIND_OBJ) -L$(BUILD) -ldflow \
	  -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib' -Wl,-E $(LUA_LIBS) -lreadline -lm -ldl -o $@
	$(linked)

# What help shows below its examples: they are run once. An op whose entry lacks a fact is an error here.
$(OUTPUTS): $(filter-out $(OUTPUTS),$(STDLIB)) $(wildcard runtime/ops/*.c) | $(BUILD)/dflow
	$(Q)DFLOW_ENGINE=tokens $(BUILD)/dflow -E -e "require 'dflow.docs.examples'.write '$(BUILD)/outputs.lua'"
	$(Q)mv $(BUILD)/outputs.lua $@

-include $(OBJ:.o=.d)
.PHONY: lib core program jit force
