package scale

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/gen"
)

const (
	// builders make workspaces side by side, and fillers claims: more than keep kcp busy
	// only wait for each other.
	builders = 16
	fillers  = 32
	// saying is how often progress is told.
	saying = 10 * time.Second
)

// grow has this many workspaces bound.
func (s *stage) grow(ctx context.Context, workspaceCount int) error {
	from := len(s.tenants)
	s.tenants = append(s.tenants, make([]client.WithWatch, workspaceCount-from)...)
	return s.side(ctx, "workspaces", builders, workspaceCount-from, func(ctx context.Context, i int) (err error) {
		s.tenants[from+i], err = s.newTenant(ctx, tenantName(from+i))
		return err
	})
}

// fill has this many claims more bound, spread evenly.
func (s *stage) fill(ctx context.Context, claims int) error {
	before, err := s.ipam.answered(ctx)
	if err != nil {
		return err
	}
	s.filled += claims
	err = s.side(ctx, "claims", fillers, claims, func(ctx context.Context, i int) error {
		return claim(ctx, s.tenants[i%len(s.tenants)])
	})
	if err != nil {
		return err
	}
	return harness.Eventually(ctx, patience, "the claims to be bound", func(ctx context.Context) error {
		now, err := s.ipam.answered(ctx)
		if err == nil && now-before < float64(claims) {
			err = fmt.Errorf("%.0f of %d are", now-before, claims)
		}
		return err
	})
}

// wanted is what every claim asks for.
func wanted() []gen.ClaimOption { return []gen.ClaimOption{gen.OfClass(className), gen.Length(28)} }

// claim makes a claim in a workspace.
func claim(ctx context.Context, in client.Client) error {
	return in.Create(ctx, gen.Claim(tenant.NewName(), wanted()...))
}

// side calls do for every i below n, several side by side, and tells how far it has come.
func (s *stage) side(ctx context.Context, what string, limit, n int, do func(ctx context.Context, i int) error) error {
	if n <= 0 {
		return nil
	}
	began, done := time.Now(), atomic.Int64{}
	telling, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for ticker := time.NewTicker(saying); ; {
			select {
			case <-telling.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				rate := float64(done.Load()) / time.Since(began).Seconds()
				left := time.Duration(float64(n-int(done.Load())) / max(rate, 0.01) * float64(time.Second))
				s.Say("%d of %d %s, %.1f/s, about %s left", done.Load(), n, what, rate, left.Round(time.Second))
			}
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error {
			defer done.Add(1)
			return do(ctx, i)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.Say("%d %s in %s, %.1f/s", n, what, time.Since(began).Round(time.Second), float64(n)/time.Since(began).Seconds())
	return nil
}
