#!/usr/bin/env bash
# Links a Chromium in .cache/bin for the tests of the pages, and installs Debian's if there is none. Behind `make chromium`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_browser() {
	command -v chromium || command -v chromium-browser || command -v google-chrome
}

if ! found=$(find_browser); then
	mkdir -p .cache
	echo "installing chromium with apt-get: about a minute, the first time only"
	apt-get install -y --no-install-recommends chromium >.cache/chromium.log 2>&1 ||
		{ apt-get update && apt-get install -y --no-install-recommends chromium; } >.cache/chromium.log 2>&1 || {
		cat .cache/chromium.log >&2
		echo "the tests in test/ui need a browser: install chromium or google-chrome, and call make again" >&2
		exit 1
	}
	found=$(find_browser)
fi
mkdir -p .cache/bin
ln -sfn "$found" .cache/bin/chromium
