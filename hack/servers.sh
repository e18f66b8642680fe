#!/usr/bin/env bash
# Builds programs of a module in tools/, unless they are in a store in the home directory, and links them in .cache/bin:
# hack/servers.sh <module> <how long it takes> <package>... Behind `make kcp` and `make kube`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=tools/$1 takes=$2
shift 2
# The version of a module as its go.mod requires it.
required() { awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$module/go.mod"; }

# Without this the servers say that their version is v0.0.0-master+$Format:%H$.
kcp=$(required github.com/kcp-dev/kcp)
says=$(required k8s.io/kubernetes)${kcp:++kcp-$kcp}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=$says -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$says")"
done
key=$({ cat "$module/go.sum"; go version; echo "$flags"; } | sha256sum | cut -c1-16)
store="${XDG_CACHE_HOME:-$HOME/.cache}/kcp-ipam/$key"
missing=()
for package in "$@"; do
	[[ -x "$store/${package##*/}" ]] || missing+=("$package")
done
if ((${#missing[@]})); then
	echo "building ${missing[*]##*/} into $store: $takes, the first time only"
	mkdir -p "$store"
	building=$(mktemp -d "$store/building.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	go -C "$module" build -ldflags "$flags" -o "$building/" "${missing[@]}"
	mv -f "$building"/* "$store/"
fi
mkdir -p .cache/bin
for package in "$@"; do
	ln -sfn "$store/${package##*/}" ".cache/bin/${package##*/}"
done
