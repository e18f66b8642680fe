// Package build says which version of this module a program was built from.
package build

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// version is set by the builds of a release: go build -ldflags '-X
// github.com/kcp-ipam/ipam/internal/build.version=v0.1.0'.
var version string

// Version is the version of this program: that of the release, or that of the commit, as v0.0.0-<time>-<commit>. It is
// "unknown" where neither is known, and never empty.
func Version() string {
	built := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		built = info.Main.Version
	}
	return cmp.Or(version, built, "unknown")
}

// Go is the version of Go that built this program.
func Go() string { return runtime.Version() }
