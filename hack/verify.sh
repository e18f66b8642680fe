#!/usr/bin/env bash
# Fails if something generated, formatted or required has drifted, or a file is too long. Behind `make verify`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
	echo "$1" >&2
	exit 1
}

# Every tracked or new file with its checksum: two of these tell what a command changed, in a dirty tree too.
snapshot() {
	git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null || true
}

mkdir -p .cache
snapshot >.cache/before
make --no-print-directory generate
snapshot >.cache/after
diff .cache/before .cache/after || fail "generated files have drifted: run 'make generate' and commit what it writes"

hack/fork.sh
go mod tidy -diff || fail "go.mod has drifted: run 'go mod tidy' and commit it"

drifted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
[[ -z "$drifted" ]] || fail "run gofmt -w on: $drifted"
