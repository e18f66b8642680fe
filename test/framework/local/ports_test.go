package local

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// Two processes never take the same port, and one never takes a port twice.
func TestPorts_OfTwoProcesses(t *testing.T) {
	t.Parallel()
	var here, there ports
	t.Cleanup(func() {
		for _, lock := range slices.Concat(here.locks, there.locks) {
			if err := lock.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	seen := map[int]bool{}
	for range 20 {
		for _, process := range []*ports{&here, &there} {
			taken := must.Get(process.take(t.Context(), blockSize/10))(t)
			for _, port := range taken {
				if seen[port] {
					t.Fatalf("port %d was taken twice", port)
				}
				seen[port] = true
			}
		}
	}
	if len(here.locks) < 2 {
		t.Errorf("%d blocks are locked, want more", len(here.locks))
	}
}
