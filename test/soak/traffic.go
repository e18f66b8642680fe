package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
)

// patience is how long one thing may take to be done, whatever is away meanwhile. kcp
// takes 25 s to start on an idle machine.
const patience = 4 * time.Minute

// work makes a claim now and then while ctx lasts, and deletes an older one for it. What
// it has begun it ends.
func (t *tenant) work(ctx, whole context.Context) error {
	each := time.Duration(float64(t.workspaces) / t.rate * float64(time.Second))
	next := time.Now().Add(drawn(t.random, 0, each))
	for retry.Pause(ctx, time.Until(next)) {
		if err := t.turn(whole); err != nil {
			return fmt.Errorf("tenant %s: %w", t.path, err)
		}
		// A caller that was kept waiting does not make up for it.
		next = time.Now().Add(drawn(t.random, each/2, each*3/2))
	}
	return nil
}

// turn makes a claim, and deletes one if there are enough.
func (t *tenant) turn(ctx context.Context) error {
	if err := t.add(ctx, t.next()); err != nil {
		return err
	}
	if len(t.held) <= t.hold {
		return nil
	}
	return t.remove(ctx, t.random.IntN(len(t.held)))
}

// level has the tenant hold so many claims.
func (t *tenant) level(ctx context.Context, hold int) error {
	for len(t.held) < hold {
		if err := t.add(ctx, t.next()); err != nil {
			return fmt.Errorf("tenant %s: %w", t.path, err)
		}
	}
	for len(t.held) > hold {
		if err := t.remove(ctx, 0); err != nil {
			return fmt.Errorf("tenant %s: %w", t.path, err)
		}
	}
	return nil
}

// add makes a claim and waits until it is bound.
func (t *tenant) add(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	began := time.Now()
	if err := t.bind(ctx, claim); err != nil {
		return err
	}
	t.record.bound(began, time.Now())
	t.held = append(t.held, held{claim.Name, claim.Spec.ReclaimPolicy == ipamv1alpha1.ReclaimRetain})
	return nil
}

func (t *tenant) bind(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	defer t.record.waits()()
	err := retry.Do(ctx, patience, "create "+claim.Name, func(ctx context.Context) error {
		err := t.Create(ctx, claim.DeepCopy())
		if client.IgnoreAlreadyExists(err) != nil { // the answer to the first try was lost
			return err
		}
		return t.Get(ctx, client.ObjectKeyFromObject(claim), claim)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %s", patience))
	defer cancel()
	if _, err := t.history.Given(ctx, claim.UID); err != nil {
		return fmt.Errorf("claim %s is not bound: %w", claim.Name, err)
	}
	t.record.holds(1)
	return nil
}

// remove deletes a claim, and what it has retained. The IPAllocation follows the answer to CREATE: a
// claim that goes before it is there retains its block all the same, and nobody would delete that.
func (t *tenant) remove(ctx context.Context, i int) error {
	claim := t.held[i]
	t.held = slices.Delete(t.held, i, i+1)
	if !claim.retain {
		return t.unbind(ctx, claim.name)
	}
	allocation := &ipamv1alpha1.IPAllocation{}
	allocation.Namespace, allocation.Name = metav1.NamespaceDefault, ipamv1alpha1.AllocationName(metav1.NamespaceDefault, claim.name)
	err := retry.Do(ctx, patience, "the IPAllocation of "+claim.name, func(ctx context.Context) error {
		return t.Get(ctx, client.ObjectKeyFromObject(allocation), allocation)
	})
	if err != nil {
		return err
	}
	if err := t.unbind(ctx, claim.name); err != nil {
		return err
	}
	return retry.Do(ctx, patience, "delete what "+claim.name+" has retained", func(ctx context.Context) error {
		return gone(t.Delete(ctx, allocation), "ipallocations", allocation.Name) // refused until the claim is out of it
	})
}

func (t *tenant) unbind(ctx context.Context, name string) error {
	err := retry.Do(ctx, patience, "delete "+name, func(ctx context.Context) error {
		return gone(t.Delete(ctx, gen.Claim(name)), "ipclaims", name)
	})
	if err == nil {
		t.record.holds(-1)
	}
	return err
}

// gone takes it for done that there is nothing any more: the answer to the try before was lost.
func gone(err error, resource, name string) error {
	if absent.Object(err, resource, name) {
		return nil
	}
	return err
}

// queue wants one of the few blocks of the scarce pool again and again while ctx lasts,
// and holds it for a moment.
func (t *tenant) queue(ctx, whole context.Context, random *rand.Rand) error {
	for n := 0; ctx.Err() == nil; n++ {
		claim := gen.Claim(fmt.Sprint(scarce, "-", n), gen.OfClass(scarce), gen.Length(32))
		if err := t.bind(whole, claim); err != nil {
			return fmt.Errorf("tenant %s: %w", t.path, err)
		}
		retry.Pause(ctx, drawn(random, time.Second, 3*time.Second))
		if err := t.unbind(whole, claim.Name); err != nil {
			return fmt.Errorf("tenant %s: %w", t.path, err)
		}
	}
	return nil
}

// drawn draws a time.
func drawn(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
