#!/usr/bin/env bash
# Runs all tests but the long ones, for gotestsum: as JSON. What follows are arguments of go test. TEST names packages in the place of all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Vet is off, as make lint runs it. A package that hangs ends after its -timeout, more than twice what the longest one takes, and shows
# where it waits.
tests() { go test -json -count=1 -p 2 -vet=off "$@" || failed=1; }
failed=0

if [ -n "${TEST:-}" ]; then
	read -ra packages <<<"$TEST"
	tests -race -timeout 75m "$@" "${packages[@]}"
	exit "$failed"
fi

# The tests of the whole, the longest first, send requests to servers that are built without the race detector: with it, the tests
# themselves would take four times as much of the processors. What the plugin does at once is little, and make chaos looks for its races.
whole=(./test/{e2e,shards,capi,guide,ui})
mapfile -t concurrent < <(go list ./allocator/... ./cmd/ipam-controller/... ./controllers/... ./test/chaos/... ./workspaces/...)
mapfile -t others < <(go list ./... | grep -vxF -e "$(go list "${whole[@]}")" -e "$(printf '%s\n' "${concurrent[@]}")")
tests -timeout 40m "$@" "${whole[@]}" "${others[@]}"
# These wait for etcd and for each other much of the time.
tests -race -timeout 20m -p 4 "$@" "${concurrent[@]}"
exit "$failed"
