package kcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/watch"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/gen"
)

// stocked is how many claims each client deletes in a round.
const stocked = 12

// stock makes the claims that deletions will delete.
func (s *side) stock(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	s.stocked = make([][]string, deleting)
	for i := range s.stocked {
		group.Go(func() error {
			for range stocked {
				name := tenant.NewName()
				if _, err := s.tenants[i].Claim(ctx, name, bySharedClass.answered, bySharedClass.options...); err != nil {
					return err
				}
				s.stocked[i] = append(s.stocked[i], name)
			}
			return nil
		})
	}
	return group.Wait()
}

// deletions lets clients delete the stocked claims side by side. Each client deletes its next claim when the record
// of the last one is gone.
func (s *side) deletions(ctx context.Context, _ time.Duration) (round, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	took := make([][]time.Duration, deleting)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range deleting {
		group.Go(func() (err error) {
			took[i], err = deleteAll(ctx, s.tenants[i], s.stocked[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return round{}, err
	}
	return newRound(slices.Concat(took...), time.Since(began))
}

// deleteAll deletes claims one after the other. For each it returns the time from its DELETE until its record was
// seen to be gone.
func deleteAll(ctx context.Context, t *tenant.Tenant, claims []string) ([]time.Duration, error) {
	events, err := t.Watch(ctx, &ipamv1alpha1.IPAllocationList{})
	if err != nil {
		return nil, fmt.Errorf("watch the records of %s: %w", t.Path, err)
	}
	defer events.Stop()
	var took []time.Duration
	for _, name := range claims {
		claim := gen.Claim(name)
		began := time.Now()
		if err := t.Delete(ctx, claim); err != nil {
			return nil, fmt.Errorf("delete claim %s of %s: %w", name, t.Path, err)
		}
		if err := gone(ctx, events, ipamv1alpha1.AllocationName(claim.Namespace, name)); err != nil {
			return nil, fmt.Errorf("the record of claim %s of %s: %w", name, t.Path, err)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// gone waits until a watch shows that a record is deleted.
func gone(ctx context.Context, events watch.Interface, record string) error {
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok {
				return errors.New("the watch has ended")
			}
			object, ok := event.Object.(*ipamv1alpha1.IPAllocation)
			if ok && event.Type == watch.Deleted && object.Name == record {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
