package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant that holds the range of a shared network keeps its claim by a finalizer, and deletes it without end, over
// many connections. Every other workspace still gets its address there: only the first DELETE closes the range.
func TestRanges_KeepServingOthersWhileTheirHolderDeletes(t *testing.T) {
	t.Parallel()
	const networks, connections = 5, 16
	s := newScene(t)
	net, guest := s.name+"-net", s.platform.Tenant(t)
	framework.Create(t, s.platform,
		gen.Class(net, gen.DefaultLength(28), gen.PoolPer("network", ipamv1alpha1.RoleAllProjects)),
		gen.Class(s.name, gen.DefaultLength(32), gen.Below(net)))
	framework.Allocate(t, s.platform, platformPool(s.name, s.cidr, net))
	r, inside := &ranges{scene: s}, func(network string) *ipamv1alpha1.IPClaim {
		return gen.Claim(network, gen.OfClass(s.name), gen.Within("network", network))
	}
	for _, tenant := range []*framework.Tenant{s.tenant, guest} {
		s.platform.WaitWebhooks(t, tenant)
		framework.Eventually(t, "claims to be served by the chain", func(ctx context.Context) error {
			probe := inside("probe")
			if err := tenant.Create(ctx, probe, client.DryRunAll); err != nil || probe.Status.AllocatedCIDR == "" {
				return fmt.Errorf("a claim would be answered with %+v: %w", probe.Status, err)
			}
			return nil
		})
	}
	for n := range networks {
		network := fmt.Sprint("shared-", n)
		held := gen.Claim(network, gen.OfClass(net), gen.ForRange(), gen.Within("network", network))
		held.Finalizers = []string{"example.com/stays"}
		r.gets(held)
		ctx, stop := context.WithCancel(t.Context())
		var storm sync.WaitGroup
		for range connections {
			storm.Go(func() {
				for ctx.Err() == nil {
					_ = s.tenant.Delete(ctx, held.DeepCopy())
				}
			})
		}
		framework.Eventually(t, "the claim to be Terminating", func(ctx context.Context) error {
			if err := s.tenant.Get(ctx, client.ObjectKeyFromObject(held), held); err != nil || held.DeletionTimestamp.IsZero() {
				return fmt.Errorf("the claim is %+v: %w", held.ObjectMeta, err)
			}
			return nil
		})
		address := inside(network)
		framework.Bind(t, guest, address)
		made := r.uidOf(address)
		for range 3 * connections {
			_ = s.tenant.Delete(t.Context(), held.DeepCopy())
		}
		if now := r.uidOf(address); now != made {
			t.Errorf("the IPPool of %s was made again while the claim of its range was deleted", network)
		}
		stop()
		storm.Wait()
		framework.Delete(t, guest, address)
		framework.Change(t, s.tenant, held, func(claim *ipamv1alpha1.IPClaim) { claim.Finalizers = nil })
	}
}

// uidOf returns the UID of the platform's IPPool from which a claim was served; empty: there is none.
func (r *ranges) uidOf(claim *ipamv1alpha1.IPClaim) types.UID {
	r.Helper()
	pool := &ipamv1alpha1.IPPool{}
	if err := r.platform.Get(r.Context(), client.ObjectKey{Name: claim.Status.PoolRef.Name}, pool); client.IgnoreNotFound(err) != nil {
		r.Fatal(err)
	}
	return pool.UID
}
