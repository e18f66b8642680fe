package tenant

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/gen"
)

// serial numbers the claims, so that no name is used twice.
var serial atomic.Int64

// NewName returns a name that no other claim of this program has.
func NewName() string { return fmt.Sprintf("claim-%d", serial.Add(1)) }

// Crowd is clients that claim side by side, spread over tenants.
type Crowd struct {
	Tenants []*Tenant
	Clients int
	// Answered says when a claim is, and Options what it asks for.
	Answered Answered
	Options  []gen.ClaimOption
}

// Claim has each client make its next claim when the last is answered, until the time is
// up. It returns how long each claim took, and how long all of it.
func (c Crowd) Claim(ctx context.Context, during time.Duration) (took []time.Duration, lasted time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, during+patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	each := make([][]time.Duration, c.Clients)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range each {
		group.Go(func() error {
			for time.Since(began) < during {
				one, err := c.Tenants[i%len(c.Tenants)].Claim(ctx, NewName(), c.Answered, c.Options...)
				if err != nil {
					return err
				}
				each[i] = append(each[i], one)
			}
			return nil
		})
	}
	err = group.Wait()
	return slices.Concat(each...), time.Since(began), err
}

// Unrecorded returns the number of claims of tenants that have a block and no IPAllocation yet.
func Unrecorded(ctx context.Context, tenants []*Tenant) (int, error) {
	backlog := 0
	for _, t := range tenants {
		records, claims := &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPClaimList{}
		if err := t.List(ctx, records); err != nil { // first: a record that comes meanwhile is not missed
			return 0, err
		}
		if err := t.List(ctx, claims); err != nil {
			return 0, err
		}
		for i := range claims.Items {
			if Bound(&claims.Items[i]) {
				backlog++
			}
		}
		backlog -= len(records.Items)
	}
	return backlog, nil
}

// Clean deletes all claims of tenants but those of a name that stay, which each of them
// has, and waits until nothing else is left.
func Clean(ctx context.Context, tenants []*Tenant, stay ...string) error {
	for _, t := range tenants {
		if err := t.deleteClaims(ctx, stay); err != nil {
			return fmt.Errorf("clean %s: %w", t.Path, err)
		}
	}
	return harness.Eventually(ctx, patience, "all records but those that stay to be gone", func(ctx context.Context) error {
		for _, t := range tenants {
			records := &ipamv1alpha1.IPAllocationList{}
			if err := t.List(ctx, records); err != nil {
				return err
			}
			if len(records.Items) != len(stay) {
				return fmt.Errorf("%s has %d IPAllocations; %d stay", t.Path, len(records.Items), len(stay))
			}
		}
		return nil
	})
}

func (t *Tenant) deleteClaims(ctx context.Context, stay []string) error {
	claims := &ipamv1alpha1.IPClaimList{}
	if err := t.List(ctx, claims); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, claim := range claims.Items {
		if !slices.Contains(stay, claim.Name) {
			group.Go(func() error { return t.Delete(ctx, &claim) })
		}
	}
	return group.Wait()
}
