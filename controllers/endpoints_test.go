package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// The controller is not ready before it has seen the endpoint slice, nor while kcp finds the slice invalid, as when the
// APIExport is deleted. While kcp does not answer, it stays as it is.
func TestEndpointsCheck(t *testing.T) {
	t.Parallel()
	invalid, away := fmt.Errorf("it has no export: %w", live.ErrInvalid), errors.New("connection refused")
	c := newEndpointsCheck(&live.Reader{})
	for _, step := range []struct {
		says  error
		ready bool
	}{{away, false}, {invalid, false}, {nil, true}, {away, true}, {invalid, false}, {away, false}, {nil, true}} {
		c.valid = func(context.Context) error { return step.says }
		c.look(t.Context())
		if err := c.check(nil); (err == nil) != step.ready {
			t.Fatalf("when a read says %v, the check says %v; want ready: %t", step.says, err, step.ready)
		}
	}
}
