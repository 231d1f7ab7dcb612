# cuda.mk: the plug-in for GPUs, its kernels, and the driver for tests (spec/cuda). Included by the Makefile.
#
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

cuda: $(CUDA) $(STRICT) $(STRICT_LIBS)
ifeq ($(NVCC),)
	@echo 'dflow: without kernels for GPUs: nvcc is not there' >&2
endif

cuda-abi:               ## compare our declarations of the CUDA driver with the toolkit's cuda.h
	$(Q)$(CC) -std=gnu11 -Wall -Werror -I$(dir $(NVCC))../include -fsyntax-only spec/cuda/abi.c

gpu-strict:             ## run the tests with gpu:0 as the default device, on the driver for tests (GPU_SPECS: these only)
	$(Q).ci/deps build test
	$(Q)$(SUBMAKE) MODE=release all
	$(Q)DFLOW_SPEC_SECONDS=$${DFLOW_SPEC_SECONDS:-900} DFLOW_CUDA_DRIVER=strict DFLOW_DEFAULT_DEVICE=gpu:0 SPECS="$${GPU_SPECS:-spec}" \
	  DFLOW_TESTS=all spec/run.sh lua5.4:release

gpu-check:              ## all that needs a GPU, in one go: agreement and figures, to spec/bench/gpu/ (DFLOW_CUDA_DRIVER=strict: without one)
	$(Q).ci/deps build test
	$(Q)$(SUBMAKE) all
	$(Q)DFLOW_BUILD=$(BUILD) $(BUILD)/dflow spec/bench/gpu/check.lua

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
# A family's own headers are used by no other.
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
