#!/usr/bin/env bash
# Builds the kubectl plugin into dist/, with checksums and a krew manifest: hack/release.sh <version>.
# Behind `make release`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$1
rm -rf dist
mkdir -p dist
sed "s|\${VERSION}|$version|" .krew.yaml >dist/ipam.yaml
for platform in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64; do
	echo "building kubectl-ipam for $platform"
	CGO_ENABLED=0 GOOS="${platform%_*}" GOARCH="${platform#*_}" \
		go build -trimpath -ldflags "-s -w -X github.com/kcp-ipam/ipam/internal/build.version=$version" -o dist/kubectl-ipam ./cmd/kubectl-ipam
	archive="kubectl-ipam_$platform.tar.gz"
	tar -czf "dist/$archive" -C dist kubectl-ipam -C ../cmd/kubectl-ipam kubectl_complete-ipam -C ../.. LICENSE
	sum=$(cd dist && sha256sum "$archive" | tee -a checksums.txt | cut -d' ' -f1)
	sed -i.old "s|\${SHA256_$platform}|$sum|" dist/ipam.yaml
done
rm -f dist/kubectl-ipam dist/ipam.yaml.old
