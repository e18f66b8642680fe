package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A retained block is released when the lease of its class is over: its record goes, a claim that
// waits for the room gets it, and an event says so. Its record has said when.
func TestLease(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("5s"))
	pool := s.pool(part(s.cidr, 28))
	former := s.holds("former", gen.Length(28))
	waiter := gen.Claim("waiter", gen.OfClass(s.name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete))
	framework.Create(t, s.tenant, waiter)
	framework.WaitAllocated(t, s.tenant, waiter, ipamv1alpha1.ReasonPoolExhausted)
	deleted := time.Now()
	framework.Delete(t, s.tenant, former)
	record := s.retained(former)
	if expires := record.Status.Expires; expires == nil || expires.Time.Before(deleted.Add(4*time.Second)) {
		t.Errorf("the record expires at %v, want an end 5 s after %s", expires, deleted)
	}
	framework.WaitBound(t, s.tenant, waiter)
	if now := time.Now(); now.Before(record.Status.Expires.Time) {
		t.Errorf("the block is given to another claim at %s, before its lease ends at %s", now, record.Status.Expires)
	}
	if waiter.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
		t.Errorf("the claim that waited got %s, want %s", waiter.Status.AllocatedCIDR, former.Status.AllocatedCIDR)
	}
	framework.WaitGone(t, s.tenant, record.DeepCopy())
	waitHeld(t, s.platform, pool, size(blockOf(t, waiter)))
	s.told(record, ipamv1alpha1.ReasonLeaseExpired)
}

// told waits for an event about an object.
func (s scene) told(about client.Object, reason ipamv1alpha1.Reason) {
	s.Helper()
	owner, events := s.tenant.Owner(s), &corev1.EventList{}
	framework.Eventually(s, "the event "+string(reason), func(ctx context.Context) error {
		if err := owner.List(ctx, events, client.InNamespace(about.GetNamespace())); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.UID == about.GetUID() && event.Reason == string(reason) {
				return nil
			}
		}
		return fmt.Errorf("there is none among %d", len(events.Items))
	})
}

// A pool bounds the lease of a class, and gives one where the class has none. Neither: the block is
// kept. What class and pool say later changes no lease that there is.
func TestLease_BoundedByThePool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("1h"))
	s.pool(s.cidr)
	s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Lease("2s"))
	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.MaxRetentionLease = "30m" })
	expires := func(claim *ipamv1alpha1.IPClaim, want time.Duration) *ipamv1alpha1.IPAllocation {
		t.Helper()
		framework.WaitBound(t, s.tenant, claim)
		deleted := time.Now()
		framework.Delete(t, s.tenant, claim)
		record := s.retained(claim)
		got := record.Status.Expires
		if got == nil || got.Time.Before(deleted.Add(want-time.Second)) || got.After(time.Now().Add(want+2*time.Second)) {
			t.Errorf("the record of %s expires at %v, want %s after %s", claim.Name, got, want, deleted)
		}
		return record
	}
	retain := gen.Reclaim(ipamv1alpha1.ReclaimRetain)
	claim := s.holds("bounded", gen.Length(28))
	framework.Eventually(t, "the bound of the pool", func(ctx context.Context) error { // in the cache
		pool := gen.Pool(s.name)
		if err := s.platform.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if pool.Status.ObservedGeneration != pool.Generation {
			return errors.New("it is not observed")
		}
		return nil
	})
	bounded := expires(claim, 30*time.Minute)
	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.MaxRetentionLease = "1s" })
	s.observedClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.RetentionLease = "1s" })

	own := gen.Claim("own", gen.FromPool("own"), gen.Length(28), retain)
	framework.Bind(t, s.tenant, own)
	framework.Delete(t, s.tenant, own)
	gone := &ipamv1alpha1.IPAllocation{}
	gone.Namespace, gone.Name = own.Namespace, own.Status.BoundAllocationRef.Name
	framework.WaitGone(t, s.tenant, gone)

	other := gen.Pool("other", gen.CIDR("10.1.0.0/24"))
	framework.Allocate(t, s.tenant, other)
	forever := gen.Claim("forever", gen.FromPool("other"), gen.Length(28), retain)
	framework.Bind(t, s.tenant, forever)
	framework.Delete(t, s.tenant, forever)
	if record := s.retained(forever); record.Status.Expires != nil {
		t.Errorf("the record expires at %s, want no end", record.Status.Expires)
	}
	if now := s.retained(claim); now.ResourceVersion != bounded.ResourceVersion {
		t.Errorf("the record is %+v, was %+v; want it unchanged by what class and pool say later", now, bounded)
	}
}

// observedClass changes the class of the scene, and waits until the controller has seen that.
func (s scene) observedClass(change func(*ipamv1alpha1.IPClassSpec)) {
	s.Helper()
	s.changeClass(change)
	framework.WaitFor(s, client.Reader(s.platform), gen.Class(s.name), func(class *ipamv1alpha1.IPClass) error {
		if class.Status.ObservedGeneration != class.Generation {
			return errors.New("the change is not observed")
		}
		return nil
	})
}
