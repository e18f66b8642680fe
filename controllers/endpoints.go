package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

const (
	// unreadEndpoints is the time between two reads of the endpoint slice until the slice is found valid once.
	unreadEndpoints = time.Second
	// readEndpoints is the time between two reads from then on, and how long one read may take.
	readEndpoints = 5 * time.Second
	// blind is the time without an answer after which the caches are no longer believed. An API server that restarts is
	// away for less.
	blind = 30 * time.Second
)

// endpointsCheck is ready while the endpoint slice is valid, as far as is known, and a server has answered lately. A
// standby checks, too: if its token has ended, or its watches hang, it would answer CREATEs from an old cache once it
// leads. Without kcp there is no slice, and nothing is read.
//
// If the platform's server is away, it is away for all replicas, and nothing changes there meanwhile. This must not
// take the service from the tenants of other shards. So the answer of another server counts as well, unless the
// platform's server has refused to answer this replica.
type endpointsCheck struct {
	valid  func(context.Context) error
	others func(context.Context) error // returns nil if any endpoint of the export answers
	clock  clock.PassiveClock
	lacks  atomic.Pointer[error]     // why the check is not ready; nil if it is
	seen   atomic.Pointer[time.Time] // when a server answered last; at first, when the check was made

	refused bool // the last answer of the platform's server was a refusal; only the runnable uses it
}

func newEndpointsCheck(reader *live.Reader, now clock.PassiveClock) *endpointsCheck {
	c := &endpointsCheck{valid: reader.Valid, others: reader.Answers, clock: now}
	c.seen.Store(new(now.Now()))
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

// look reads the slice once. An invalid slice counts as an answer, too. If the platform's server is away, look asks
// others.
func (c *endpointsCheck) look(ctx context.Context) {
	err := within(ctx, c.valid)
	switch {
	case err == nil || errors.Is(err, live.ErrInvalid):
		c.refused = false
		c.tell(err)
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		c.refused = true
		return
	case c.refused || within(ctx, c.others) != nil:
		return
	}
	c.seen.Store(new(c.clock.Now()))
	seen.Set(float64(c.clock.Now().Unix()))
}

// within limits how long a read may take.
func within(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readEndpoints)
	defer cancel()
	return read(ctx)
}

func (c *endpointsCheck) tell(lacks error) { c.lacks.Store(&lacks) }

// sees returns an error if no server has answered lately: then the caches are not to be believed.
func (c *endpointsCheck) sees() error {
	if ago := c.clock.Since(*c.seen.Load()); ago >= blind {
		return fmt.Errorf("no server has answered a read of APIExportEndpointSlice %s or of an endpoint for %s",
			ipamv1alpha1.GroupName, ago.Round(time.Second))
	}
	return nil
}

func (c *endpointsCheck) check(*http.Request) error {
	if err := c.sees(); err != nil {
		return err
	}
	return *c.lacks.Load()
}
