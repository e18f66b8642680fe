#!/usr/bin/env bash
# Fails on words and constructions that the project avoids: in its pages, in the help of its programs, in Go files, and in
# the last commit's message. The rules are in tools/prose/styles. Part of `make lint`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=$PWD/.cache/bin
help=$PWD/.cache/help
mkdir -p "$bin"
rm -rf "$help"
mkdir "$help"
go build -o "$bin/" ./cmd/kubectl-ipam ./cmd/ipam-controller

# Writes the help of a command to a file, and that of each command below it.
describe() {
	local words=("$@")
	local file="$help/${words[*]##*/}.txt"
	"$@" --help >"$file"
	local below
	for below in $(awk '/^Available Commands:/ { on = 1; next } on && /^  / { print $1; next } { on = 0 }' "$file"); do
		[[ "$below" == completion || "$below" == help ]] || describe "$@" "$below"
	done
}
describe "$bin/kubectl-ipam"
describe "$bin/ipam-controller"

# docs/api.md is generated from the comments of apis/, which no rule reads yet; the changelog is history.
{
	git ls-files -z --cached --others --exclude-standard '*.md' ':!docs/api.md' ':!CHANGELOG.md' ':!third_party'
	find "$help" -type f -print0
} | xargs -0 go tool -modfile=tools/prose/go.mod vale --output=line

# The same rules in Go: comments, the strings that users read, names, and the last commit's message.
go build -C tools/prose -o "$bin/golint" ./golint
"$bin/golint"
