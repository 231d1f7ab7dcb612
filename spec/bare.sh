#!/bin/sh
# bare.sh: builds and tests in a fresh Debian that has make and git and nothing else of what a developer's machine has, so
# that a package which no list names is missed.
#
#   make bare                    in a folder of its own under $TMPDIR, which goes afterwards
#   BARE_SUITE=bookworm BARE_MIRROR=http://deb.debian.org/debian BARE_TARGET=test make bare
#
# It wants root, debootstrap and the mirror; where one is missing it says so and is no failure. In namespaces of its own, so
# that no mount is left behind.
set -eu
cd "$(dirname "$0")/.."
suite=${BARE_SUITE:-bookworm} mirror=${BARE_MIRROR:-http://deb.debian.org/debian} target=${BARE_TARGET:-test}
without() { echo "bare: not tried: $1" >&2; exit 0; }
[ "$(id -u)" = 0 ] || without 'it wants root'
command -v debootstrap >/dev/null 2>&1 || apt-get install -y -q --no-install-recommends debootstrap >&2 || without 'there is no debootstrap'
unshare --mount --pid --fork true 2>/dev/null || without 'no namespaces are to be had'

root=$(mktemp -d "${TMPDIR:-/tmp}/dflow-bare.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' INT TERM
debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
  tail -5 "$root.log" >&2
  rm -f "$root.log"
  without "debootstrap got no $suite from $mirror"
}
rm -f "$root.log"
mkdir "$root/dflow"
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C "$root/dflow"
for file in /etc/resolv.conf /etc/apt/apt.conf; do [ ! -e "$file" ] || cp -L "$file" "$root$file"; done
cp -rL /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/" 2>/dev/null || true          # how this machine reaches the mirror
unshare --mount --pid --fork sh -eu -c '
  mount --make-rprivate /
  mount -t proc proc "$1/proc"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && ln -sf pts/ptmx "$1/dev/ptmx"
  mount -t tmpfs tmpfs "$1/dev/shm" 2>/dev/null || { mkdir -p "$1/dev/shm"; mount -t tmpfs tmpfs "$1/dev/shm"; }
  exec chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    sh -c "cd /dflow && git init -q . && apt-get update -q && make $2"
' sh "$root" "$target"
