#!/usr/bin/env bash
# Runs all tests but the long ones, for gotestsum: as JSON. What follows are arguments of go test. TEST names packages in the place of all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Vet is off, as make lint runs it.
tests() { go test -json -count=1 -p 2 -vet=off -timeout 75m "$@" || failed=1; }
failed=0

if [ -n "${TEST:-}" ]; then
	read -ra packages <<<"$TEST"
	tests -race "$@" "${packages[@]}"
	exit "$failed"
fi

# The tests of the whole, the longest first. They send requests to servers that are built without the race detector: with it, the
# tests themselves would take four times as much of the processors.
tests "$@" ./test/{e2e,shards,capi,guide,ui}
mapfile -t others < <(go list ./... | grep -vE '/test/(e2e|shards|capi|guide|ui)$')
tests -race "$@" "${others[@]}"
exit "$failed"
