package kcp

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// patience is how long anything may take before the program gives up.
const patience = 2 * time.Minute

// holder is the claim that keeps a tenant's pool full for the whole run.
const holder = "holder"

// side is one of the controllers compared, and its tenants.
type side struct {
	name       string
	program    string
	command    string
	flags      []string
	controller *local.Controller
	tenants    []*tenant.Tenant
	pools      []furnished
	stocked    [][]string // claims to be deleted, by client
	stay       []string   // claims of each tenant that stay for the whole run
	resting    idle       // what it takes doing nothing
}

// furnished is a pool, and how much of it is allocated while no round is on.
type furnished struct {
	client.Reader
	name      string
	allocated string
}

// clean deletes the claims of a round, and waits until nothing of them is left, so
// that no round pays for another.
func (s *side) clean(ctx context.Context) error {
	if err := tenant.Clean(ctx, s.tenants, s.stay...); err != nil {
		return err
	}
	return s.settled(ctx)
}

// settled waits until nothing is allocated of the pools but what stays.
func (s *side) settled(ctx context.Context) error {
	return harness.Eventually(ctx, patience, "the pools to be as they were", s.cleaned)
}

// cleaned returns an error while something of the pools is allocated that does not stay.
func (s *side) cleaned(ctx context.Context) error {
	for _, pool := range s.pools {
		if err := pool.cleaned(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f furnished) cleaned(ctx context.Context) error {
	pool := &ipamv1alpha1.IPPool{}
	if err := f.Get(ctx, client.ObjectKey{Name: f.name}, pool); err != nil {
		return err
	}
	if pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != f.allocated {
		return fmt.Errorf("of pool %s not just %s addresses are allocated: %+v", f.name, f.allocated, pool.Status.Capacity)
	}
	return nil
}
