#!/usr/bin/env bash
# Fails unless third_party/kcp-apimachinery is the released module with the changes of its fork.diff.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fork=third_party/kcp-apimachinery
module=github.com/kcp-dev/apimachinery/v2
version=$(awk -v module=$module '$1 == module { print $2 }' go.mod)
released=$(go mod download -json "$module@$version" | awk -F '"' '$2 == "Dir" { print $4 }')
test -d "$released"

differences() {
	local file
	for file in $(cd $fork && git ls-files --cached --others --exclude-standard | grep -vx 'README.md\|fork.diff'); do
		diff -Nu --label "a/$file" --label "b/$file" "$released/$file" "$fork/$file" || [[ $? -eq 1 ]]
	done
}
diff -u $fork/fork.diff <(differences) || {
	echo "$fork differs from $module $version by more than fork.diff, or by less" >&2
	exit 1
}
