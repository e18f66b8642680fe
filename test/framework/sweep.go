package framework

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// WaitSwept waits until the controller has looked for orphans that often since.
func (c Controller) WaitSwept(t testing.TB, passes int) {
	t.Helper()
	const last = "ipam_sweep_last_success_timestamp_seconds "
	seen := ""
	for range passes {
		Eventually(t, "another sweep", func(context.Context) error {
			for line := range strings.SplitSeq(c.Metrics(t), "\n") {
				if at, ok := strings.CutPrefix(line, last); ok && at != seen {
					seen = at
					return nil
				}
			}
			return fmt.Errorf("the last one was at %q", seen)
		})
	}
}
