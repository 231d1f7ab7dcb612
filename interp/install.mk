# install.mk: what is laid down under PREFIX. Included by the Makefile.
#
# What `install` lays down. The Lua modules go to both Lua versions; LuaJIT's loads libdflow through its FFI.
DEST     := $(DESTDIR)$(PREFIX)
LMOD     := share/lua/$(LUA_V)
CMOD     := lib/lua/$(LUA_V)
JITMOD   := share/lua/5.1
DOC      := share/doc/dflow
EXAMPLES := $(wildcard examples/*.lua examples/*.c examples/data/*)
SOFULL   := libdflow.so.$(VERSION)

install: all            ## install under PREFIX=/usr/local (DESTDIR= for packagers)
	$(Q)install -d $(addprefix $(DEST)/,bin lib/pkgconfig include share/man/man1 $(DOC)/examples/data $(CMOD)/dflow)
	$(Q)install -m 755 $(BUILD)/dflow $(DEST)/bin/dflow
	$(Q)ln -sf dflow $(DEST)/bin/dflow-repl
	$(Q)install -m 644 $(BUILD)/libdflow.so $(DEST)/lib/$(SOFULL)
	$(Q)if [ -f $(JIT) ]; then install -m 755 $(JIT) $(DEST)/lib/libdflow_jit.so; fi
	$(Q)for m in $(MPI); do install -m 755 $$m $(DEST)/lib/ || exit 1; done
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
	$(Q)echo '.so man1/dflow.1' > $(DEST)/share/man/man1/dflow-repl.1
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

# A package is for other machines: MODE=package compiles for every x86-64 with AVX2 and leaves build/release as it is.
deb:                    ## Debian packages, in build/deb: dflow, libdflow0, libdflow-dev, dflow-jit; dflow-cuda, -openmpi, -mpich where these are
	$(Q)rm -rf build/deb
	$(Q)$(SUBMAKE) MODE=$(if $(filter file,$(origin MODE)),package,$(MODE)) PREFIX=/usr DESTDIR=$(CURDIR)/build/deb/stage install
	$(Q)interp/deb.sh build/deb/stage build/deb $(VERSION)
	$(Q)rm -rf build/deb/stage

# What LuaRocks calls: the module in a rock's own folders, which say where the library is.
install-rock: lib core jit
	$(Q)for f in $(STDLIB:stdlib/%=%); do install -D -m 644 stdlib/$$f $(LUADIR)/$$f || exit 1; done
	$(Q)install -D -m 755 $(BUILD)/lua/dflow/core.so $(LIBDIR)/dflow/core.so
	$(Q)install -D -m 755 $(BUILD)/libdflow.so $(LIBDIR)/libdflow.so.$(SOMAJOR)
	$(Q)if [ -f $(JIT) ]; then install -m 755 $(JIT) $(LIBDIR)/libdflow_jit.so; fi
	$(Q)echo "return (debug.getinfo(1, 'S').source:sub(2):gsub('/share/lua/([^/]*)/dflow/libpath%.lua$$', '/lib/lua/%1/libdflow.so.$(SOMAJOR)'))" \
	  > $(LUADIR)/dflow/libpath.lua

uninstall:              ## remove what install put there
	$(Q)rm -f $(addprefix $(DEST)/,bin/dflow bin/dflow-repl lib/libdflow_jit.so lib/libdflow_cuda.so lib/libdflow_mpi_openmpi.so lib/libdflow_mpi_mpich.so lib/$(SOFULL) lib/libdflow.so.$(SOMAJOR) lib/libdflow.so \
	  include/dflow.h lib/pkgconfig/dflow.pc $(LMOD)/dflow.lua $(JITMOD)/dflow.lua share/man/man1/dflow.1 share/man/man1/dflow-repl.1 \
	  share/bash-completion/completions/dflow share/zsh/site-functions/_dflow share/fish/vendor_completions.d/dflow.fish)
	$(Q)rm -rf $(addprefix $(DEST)/,share/jupyter/kernels/dflow $(LMOD)/dflow $(CMOD)/dflow $(JITMOD)/dflow $(DOC) share/dflow)
.PHONY: install install-kernel install-rock deb uninstall
