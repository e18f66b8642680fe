package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

const (
	// unreadEndpoints is how often the endpoint slice is read until it was found valid once.
	unreadEndpoints = time.Second
	// readEndpoints is how often it is read from then on.
	readEndpoints = 10 * time.Second
)

// endpointsCheck is ready while the endpoint slice is valid, as far as that is known. A kcp that does not answer
// changes nothing. A replica that waits for its turn checks, too.
type endpointsCheck struct {
	valid func(context.Context) error
	lacks atomic.Pointer[error] // what it lacks to be ready, nil if nothing
}

func newEndpointsCheck(reader *live.Reader) *endpointsCheck {
	c := &endpointsCheck{valid: reader.Valid}
	c.tell(fmt.Errorf("the endpoints of APIExport %s were not read yet", ipamv1alpha1.GroupName))
	return c
}

// NeedLeaderElection says that every replica checks.
func (c *endpointsCheck) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (c *endpointsCheck) Start(ctx context.Context) error {
	pause := time.NewTicker(unreadEndpoints)
	defer pause.Stop()
	for {
		if c.look(ctx); c.check(nil) == nil {
			pause.Reset(readEndpoints)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// look reads the slice once.
func (c *endpointsCheck) look(ctx context.Context) {
	if err := c.valid(ctx); err == nil || errors.Is(err, live.ErrInvalid) {
		c.tell(err)
	}
}

func (c *endpointsCheck) tell(lacks error) { c.lacks.Store(&lacks) }

func (c *endpointsCheck) check(*http.Request) error { return *c.lacks.Load() }
