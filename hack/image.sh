#!/usr/bin/env bash
# Builds the image of ipam-controller into a file, and pushes it if a second word says so:
# hack/image.sh <tag> <file> [push]. Behind `make image`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=$1 file=$2
go build -C tools/image -o ../../.cache/bin/image .
mkdir -p "$(dirname "$file")"
if [[ "${3-}" == push ]]; then
	exec .cache/bin/image push -tag "$tag" -file "$file"
fi
exec .cache/bin/image build -tag "$tag" -file "$file" -epoch "$(git log -1 --format=%ct)" -boms "$(dirname "$file")"
