package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/networks"
)

// built is a network with one location.
type built struct {
	name        string
	vpc, subnet networks.Claim
	interfaces  [][]networks.Claim
}

func (b built) claims() []networks.Claim {
	return append(slices.Concat(b.interfaces...), b.subnet, b.vpc)
}

// comeAndGo makes count networks with a number of interfaces each, all at once and in no order, and releases them.
func (c cloud) comeAndGo(count, interfaces int) {
	all := make([]built, count)
	c.atOnce(all, func(ctx context.Context, i int) error {
		all[i].name, all[i].interfaces = fmt.Sprint("net-", i), make([][]networks.Claim, interfaces)
		return c.build(ctx, &all[i])
	})
	var vpcs, public []netip.Prefix
	for _, one := range all {
		c.within(one)
		vpcs = append(vpcs, netip.MustParsePrefix(one.vpc.CIDR))
		for _, claims := range one.interfaces {
			public = append(public, netip.MustParsePrefix(claims[2].CIDR))
		}
	}
	disjointIn(c.T, "2001:db8::/34", vpcs...)
	disjointIn(c.T, "10.1.0.0/16", public...)
	c.atOnce(all, func(ctx context.Context, i int) error {
		for _, claim := range all[i].claims() {
			if err := c.Check(ctx, claim); err != nil {
				return err
			}
		}
		return nil
	})
	c.atOnce(all, func(ctx context.Context, i int) error { return c.raze(ctx, all[i]) })
	c.isEmpty()
}

// atOnce calls do for each network, side by side.
func (c cloud) atOnce(all []built, do func(ctx context.Context, i int) error) {
	c.Helper()
	var group errgroup.Group
	for i := range all {
		group.Go(func() error { return do(c.Context(), i) })
	}
	must.Do(c, group.Wait())
}

// build makes the ranges and the interfaces of a network side by side.
func (c cloud) build(ctx context.Context, b *built) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		b.vpc, err = patient(ctx, func(ctx context.Context) (networks.Claim, error) { return c.Network(ctx, b.name) })
		return err
	})
	group.Go(func() (err error) {
		b.subnet, err = patient(ctx, func(ctx context.Context) (networks.Claim, error) { return c.Location(ctx, b.name, "ams") })
		return err
	})
	for i := range b.interfaces {
		group.Go(func() (err error) {
			b.interfaces[i], err = patient(ctx, func(ctx context.Context) ([]networks.Claim, error) {
				return c.Interface(ctx, b.name, "ams", fmt.Sprint("eth", i))
			})
			return err
		})
	}
	return group.Wait()
}

// raze releases the interfaces of a network side by side, and right after that its ranges.
func (c cloud) raze(ctx context.Context, b built) error {
	group, releasing := errgroup.WithContext(ctx)
	for _, claims := range b.interfaces {
		group.Go(func() error { return c.Release(releasing, claims...) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(c.ReleaseRange(ctx, b.subnet), c.ReleaseRange(ctx, b.vpc))
}

// within fails the test unless the ranges and interfaces of a network lie inside each other, and the interfaces share
// no address.
func (c cloud) within(b built) {
	c.Helper()
	outer, inner := netip.MustParsePrefix(b.vpc.CIDR), netip.MustParsePrefix(b.subnet.CIDR)
	if outer.Bits() != 48 || inner.Bits() != 64 {
		c.Errorf("the ranges are %s and %s; want a /48 and a /64", outer, inner)
	}
	disjointIn(c.T, ipamv1alpha1.CIDR(b.vpc.CIDR), inner)
	v6, v4 := []netip.Prefix{netip.PrefixFrom(inner.Addr(), 96)}, []netip.Prefix{} // the first /96 is reserved
	for _, claims := range b.interfaces {
		if claims[0].Pool != b.subnet.Pool {
			c.Errorf("interface %s is of pool %s; want that of its location, %s", claims[0].Name, claims[0].Pool, b.subnet.Pool)
		}
		v6 = append(v6, netip.MustParsePrefix(claims[0].CIDR))
		v4 = append(v4, netip.MustParsePrefix(claims[1].CIDR))
	}
	disjointIn(c.T, ipamv1alpha1.CIDR(b.subnet.CIDR), v6...)
	disjointIn(c.T, "10.0.0.0/16", v4...)
}

// network makes the range of a network. location makes the range of a location. plug makes the claims of an interface
// at the location ams.
func (c cloud) network(name string) networks.Claim {
	c.Helper()
	return had(c, func(ctx context.Context) (networks.Claim, error) { return c.Network(ctx, name) })
}

func (c cloud) location(network, name string) networks.Claim {
	c.Helper()
	return had(c, func(ctx context.Context) (networks.Claim, error) { return c.Location(ctx, network, name) })
}

func (c cloud) plug(network, name string) []networks.Claim {
	c.Helper()
	return had(c, func(ctx context.Context) ([]networks.Claim, error) { return c.Interface(ctx, network, "ams", name) })
}

// leave releases ranges, one after the other.
func (c cloud) leave(ranges ...networks.Claim) {
	c.Helper()
	for _, claim := range ranges {
		must.Do(c, c.ReleaseRange(c.Context(), claim))
	}
}

// had calls do patiently, and fails the test if do is refused.
func had[T any](c cloud, do func(context.Context) (T, error)) T {
	c.Helper()
	return must.Get(patient(c.Context(), do))(c)
}

// patient repeats do while a CREATE is answered without a CIDR, as a controller does. On a busy machine that happens.
func patient[T any](ctx context.Context, do func(context.Context) (T, error)) (got T, err error) {
	for range 100 {
		if got, err = do(ctx); !errors.Is(err, networks.ErrUnanswered) || !retry.Pause(ctx, time.Second) {
			break
		}
	}
	return got, err
}

// A client that deletes a claim, and in its next request the claim's IPAllocation, is never refused: the record goes,
// or is gone already. The block is free afterwards, even with Retain. The record of an existing claim still cannot be
// deleted.
func TestNetworks_DeletesARecordRightAfterItsClaim(t *testing.T) {
	t.Parallel()
	for policy, rounds := range map[ipamv1alpha1.ReclaimPolicy]int{ipamv1alpha1.ReclaimDelete: 20, ipamv1alpha1.ReclaimRetain: 20} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.platform.WaitWebhooks(t, s.tenant)
			pool := s.ownPool(gen.CIDR("198.18.0.0/23"))
			var slowest time.Duration
			absent := 0
			for i := range rounds {
				claim := gen.Claim(fmt.Sprintf("short-%d", i), gen.FromPool(pool.Name), gen.Length(28), gen.Reclaim(policy))
				framework.Create(t, s.tenant, claim)
				if i%2 == 0 {
					framework.WaitBound(t, s.tenant, claim)
				}
				record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{
					Namespace: claim.Namespace, Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name),
				}}
				if i == 0 {
					if err := s.tenant.Delete(t.Context(), record.DeepCopy()); !apierrors.IsInvalid(err) {
						t.Errorf("the record of a claim that is there: %v; want it to be refused", err)
					}
				}
				framework.Delete(t, s.tenant, claim)
				begun := time.Now()
				switch err := framework.Remove(t, s.tenant, record); {
				case apierrors.IsNotFound(err):
					absent++
				case err != nil:
					t.Errorf("round %d: the record of a claim that is gone: %v; want 200 or 404", i, err)
				}
				slowest = max(slowest, time.Since(begun))
			}
			t.Logf("%d of %d records were gone already; the slowest DELETE took %s", absent, rounds, slowest)
			framework.Eventually(t, "no record to be left", func(ctx context.Context) error {
				left := &ipamv1alpha1.IPAllocationList{}
				if err := s.tenant.List(ctx, left); err != nil {
					return err
				}
				if len(left.Items) > 0 {
					return fmt.Errorf("there are %d", len(left.Items))
				}
				return nil
			})
			framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
		})
	}
}
