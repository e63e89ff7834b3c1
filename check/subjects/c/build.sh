#!/usr/bin/env bash
# Builds the C subjects: build.sh OUT
#
# Fetches the source packages of the newest Linux and of QEMU with apt-get, extracts the few files that are needed into
# OUT/linux and OUT/qemu, and compiles them unmodified:
#
#   OUT/libsubjects.a         with ThreadSanitizer's hooks, for the checker
#   OUT/libsubjects-native.a  without, for native runs
#   OUT/versions              which packages these are
#
# Needs Debian 12 or later, its mirrors and those of Debian 13's backports, gcc, binutils and xz-utils. Ends with 77 if a
# package cannot be had. What is in OUT already is not fetched again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "${1:?usage: build.sh OUT}"
out=$(cd "$1" && pwd)
cd "$out"

skip() {
    echo "SKIPPED: $*" >&2
    exit 77
}

# The configuration of an apt-get that keeps its sources, lists and cache in a folder.
apt_configuration() {
    cat <<EOF
Dir::Etc::sourcelist "-";
Dir::Etc::sourceparts "$out/$1/parts";
Dir::State::lists "$out/$1/lists";
Dir::Cache "$out/$1/cache";
APT::Sandbox::User "root";
EOF
}

# apt-get with the machine's sources as source packages, and its own lists and cache.
apt_source() {
    if [ ! -e apt/updated ]; then
        mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts
        sed -s 's/^Types:.*/Types: deb-src/' $(grep -ls '^Components:.*main' /etc/apt/sources.list.d/*.sources) \
            </dev/null >apt/parts/all.sources
        sed -sn 's/^deb \(.* main\)/deb-src \1/p' $(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null) \
            </dev/null | grep -v nodesource >apt/parts/all.list || true
        apt_configuration apt >apt/conf
        APT_CONFIG=$out/apt/conf apt-get -qq update || return 1
        touch apt/updated
    fi
    APT_CONFIG=$out/apt/conf apt-get "$@"
}

# A command of apt with the backports of Debian 13, and its own lists and cache.
with_backports() {
    if [ ! -e backports/updated ]; then
        mkdir -p backports/lists/partial backports/cache/archives/partial backports/parts
        cat >backports/parts/backports.sources <<EOF
Types: deb
URIs: http://deb.debian.org/debian
Suites: trixie-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
        apt_configuration backports >backports/conf
        APT_CONFIG=$out/backports/conf apt-get -qq update || return 1
        touch backports/updated
    fi
    APT_CONFIG=$out/backports/conf "$@"
}

# The newest: rings in order came with Linux 6.18, and the backports have no version for long.
fetch_linux() {
    case $(cat linux/extracted 2>/dev/null) in
    linux-source-[7-9].* | linux-source-[1-9][0-9].*) return 0 ;;
    esac
    local package
    package=$(with_backports apt-cache --names-only search '^linux-source-[0-9.]+$' | sort -V | sed -n '$s/ .*//p')
    [ -n "$package" ] || skip "apt-get knows no source of Linux"
    [ -e "$(echo ${package}_*.deb)" ] || with_backports apt-get -qq download $package || skip "apt-get cannot download $package"
    rm -rf linux && mkdir linux
    dpkg-deb --fsys-tarfile ${package}_*.deb | tar -xOf - ./usr/src/$package.tar.xz |
        tar -xJf - -C linux --strip-components=1 $package/include/{linux,uapi/linux,vdso,asm-generic} \
            $package/tools/{virtio,include} $package/drivers/virtio/virtio_ring.c $package/drivers/vhost/vringh.c
    dpkg-deb --show --showformat='${Package} ${Version}\n' ${package}_*.deb >linux/version
    echo $package >linux/extracted
    rm -rf ${package}_*.deb backports
}

fetch_qemu() {
    [ ! -e qemu/extracted ] || return 0
    rm -rf qemu qemu_* && mkdir qemu
    apt_source -qq source --download-only qemu >/dev/null || skip "apt-get cannot download the source of qemu"
    tar -xJf qemu_*.orig.tar.xz -C qemu --strip-components=1 --wildcards '*/subprojects/libvhost-user' \
        '*/include/qemu/atomic.h' '*/include/qemu/compiler.h' '*/include/standard-headers/linux'
    sed -n 's/^Version: */qemu /p' qemu_*.dsc | head -n 1 >qemu/version
    touch qemu/extracted
    rm -f qemu_*
}

fetch_linux
fetch_qemu
cat linux/version qemu/version >versions

common=(-O2 -g -w -fno-strict-aliasing "-I$here")
linux=("${common[@]}" -fno-strict-overflow -fno-common -U_FORTIFY_SOURCE -include linux/include/linux/kconfig.h
    "-I$here/linux/shim" -Ilinux -Ilinux/tools/virtio -Ilinux/tools/include)
vhost=qemu/subprojects/libvhost-user
qemu=("${common[@]}" -D_GNU_SOURCE -I$vhost -Iqemu/include)
# Newer versions of QEMU renamed this field.
! grep -q backend_fd $vhost/libvhost-user.h || qemu+=(-Dslave_fd=backend_fd)

# compile ARCHIVE FLAGS...
compile() {
    local archive=$1 object renamed=()
    shift
    rm -rf objects "$archive"
    mkdir objects
    gcc "${linux[@]}" "$@" -c "$here/linux/driver.c" -o objects/linux-driver.o
    gcc "${linux[@]}" "$@" -c "$here/linux/device.c" -o objects/linux-device.o
    gcc "${linux[@]}" "$@" -c linux/drivers/vhost/vringh.c -o objects/vringh.o
    gcc "${qemu[@]}" "$@" -c "$here/qemu/device.c" -o objects/qemu-device.o
    gcc "${qemu[@]}" "$@" -c $vhost/libvhost-user.c -o objects/libvhost-user.o
    objcopy --redefine-sym eventfd_write=subject_eventfd_write objects/libvhost-user.o
    if [ $# -gt 0 ]; then
        # gcc calls these without a hook, and they may reach the ring.
        renamed=(--redefine-sym memcpy=__tsan_memcpy --redefine-sym memset=__tsan_memset
            --redefine-sym memmove=__tsan_memmove)
        for object in objects/*.o; do
            objcopy "${renamed[@]}" "$object"
        done
    fi
    ar rcs "$archive" objects/*.o
    rm -r objects
}
compile libsubjects.a -fsanitize=thread
compile libsubjects-native.a
cat versions
