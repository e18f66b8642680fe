#!/usr/bin/env bash
# Builds programs of tools/kcp, unless they are in a store in the home directory, and links them in .cache/bin:
# hack/kcp.sh <how long it takes> <program>... Behind `make kcp`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

takes=$1
shift
key=$({ cat tools/kcp/go.sum; go version; } | sha256sum | cut -c1-16)
store="${XDG_CACHE_HOME:-$HOME/.cache}/kcp-ipam/$key"
missing=()
for program in "$@"; do
	[[ -x "$store/$program" ]] || missing+=("github.com/kcp-dev/kcp/cmd/$program")
done
if ((${#missing[@]})); then
	echo "building $* into $store: $takes, the first time only"
	mkdir -p "$store"
	building=$(mktemp -d "$store/building.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	go -C tools/kcp build -trimpath -o "$building/" "${missing[@]}"
	mv -f "$building"/* "$store/"
fi
mkdir -p .cache/bin
for program in "$@"; do
	ln -sfn "$store/$program" ".cache/bin/$program"
done
