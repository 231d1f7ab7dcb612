#!/bin/sh
# Makes Debian packages of what `make install` has laid under STAGE: each package lists its files, and dpkg-shlibdeps
# reads what they link. A library that is loaded while running is named here.
#   interp/deb.sh STAGE OUT VERSION
set -eu
stage=$1 out=$2 version=$3
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/debian"

# package  depends  recommends  summary; then the patterns of its files, under /usr.
package() {
  name=$1 depends=$2 recommends=$3 summary=$4
  shift 4
  root=$work/$name
  for pattern in "$@"; do
    for file in "$stage"/usr/$pattern; do
      [ -e "$file" ] || [ -L "$file" ] || continue
      to=$root/usr/$(dirname "${file#"$stage"/usr/}")
      mkdir -p "$to"
      mv "$file" "$to"
    done
  done
  [ -d "$root/usr" ] || { echo "deb: there is nothing for $name: it was not built" >&2; return 0; }
  linked=$(cd "$work" && printf 'Source: dflow\nPackage: %s\nArchitecture: any\n' "$name" > debian/control &&
    find "$root" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0 |
      xargs -0 -r dpkg-shlibdeps -O --ignore-missing-info -l"$stage/usr/lib" -l"$work/libdflow0/usr/lib" 2>/dev/null |
      sed -n 's/^shlibs:Depends=//p')
  mkdir -p "$root/DEBIAN" "$root/usr/share/doc/$name"
  cp LICENSE "$root/usr/share/doc/$name/copyright"
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nSection: science\nPriority: optional\n' "$name" "$version" "$arch"
    printf 'Maintainer: dflow <dflow@localhost>\nInstalled-Size: %s\n' "$(du -sk "$root/usr" | cut -f1)"
    all=$(printf '%s, %s' "$depends" "$linked" | sed 's/^, //; s/, $//')
    [ -z "$all" ] || printf 'Depends: %s\n' "$all"
    [ -z "$recommends" ] || printf 'Recommends: %s\n' "$recommends"
    printf 'Description: %s\n dflow builds dataflow graphs with loops, conditionals and TensorArrays from Lua,\n' "$summary"
    printf ' differentiates them, and runs them as tagged tokens in frames.\n'
  } > "$root/DEBIAN/control"
  [ "$name" != libdflow0 ] || echo 'activate-noawait ldconfig' > "$root/DEBIAN/triggers"
  dpkg-deb --root-owner-group -Zzstd --build "$root" "$out/${name}_${version}_$arch.deb" > /dev/null
  echo "  $out/${name}_${version}_$arch.deb"
}

ours="(= $version)"
package libdflow0 'libopenblas0, liblapack3, libdnnl2' 'libpng16-16, libjpeg62-turbo, libunistring2' 'dynamic dataflow: the library' \
  'lib/libdflow.so.*'
package libdflow-dev "libdflow0 $ours" '' 'dynamic dataflow: header and pkg-config file for C' \
  include lib/libdflow.so lib/pkgconfig
package dflow-jit "libdflow0 $ours" '' 'dynamic dataflow: native code for hot loops' lib/libdflow_jit.so
package dflow-openmpi "libdflow0 $ours" '' 'dynamic dataflow: ranks on several hosts by Open MPI' \
  lib/libdflow_mpi_openmpi.so
package dflow-mpich "libdflow0 $ours" '' 'dynamic dataflow: ranks on several hosts by MPICH' lib/libdflow_mpi_mpich.so
package dflow-cuda "libdflow0 $ours" '' 'dynamic dataflow: kernels for NVIDIA GPUs' lib/libdflow_cuda.so
package dflow "libdflow0 $ours" 'dflow-jit, lua5.4 | luajit' 'dynamic dataflow: the prompt, and modules for Lua 5.4 and LuaJIT' \
  bin share lib/lua
left=$(find "$stage" ! -type d)
[ -z "$left" ] || { echo "deb: no package has these files:" "$left" >&2; exit 1; }
