package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A CREATE whose name is taken is answered before it fails. In a loop such CREATEs take at most one block, and the
// existing claim keeps its own.
func TestCreate_FailingAlreadyExists(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 24))
	claim := s.holds("web", gen.Length(28))
	for range 20 {
		if err := s.tenant.Create(t.Context(), gen.Claim("web", gen.OfClass(s.name), gen.Length(28))); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("a second CREATE: %v; want AlreadyExists", err)
		}
	}
	unchanged(t, s.tenant, claim)
	holdsAtMost(t, s.platform, pool, 2*16)
	other := s.holds("other", gen.Length(25)) // the pool still has room
	disjointIn(t, s.cidr, blockOf(t, claim), blockOf(t, other))
}

// Of several concurrent CREATEs of one name, one succeeds, and its claim keeps its block.
func TestCreate_FailingAtTheSameMoment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 24))
	var created []*ipamv1alpha1.IPClaim
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			claim := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
			switch err := s.tenant.Create(t.Context(), claim); {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				created = append(created, claim)
			case !apierrors.IsAlreadyExists(err):
				t.Errorf("CREATE: %v; want AlreadyExists", err)
			}
		})
	}
	all.Wait()
	if len(created) != 1 {
		t.Fatalf("%d claims were created, want one", len(created))
	}
	told := created[0].Status.AllocatedCIDR
	framework.WaitBound(t, s.tenant, created[0])
	if now := created[0].Status.AllocatedCIDR; told != "" && now != told {
		t.Errorf("the claim has %s; CREATE returned %s", now, told)
	}
	holdsAtMost(t, s.platform, pool, 2*16)
}

// A workspace whose CREATEs fail for a quota takes the blocks of as many claims as may be unseen, and no more. Others go on, and so does the workspace when the quota goes.
func TestCreate_FailingByQuota(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(32))
	pool := s.pool(part(s.cidr, 22))
	admin := framework.Admin(t, s.tenant.Path)
	s.holds("first")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ipam"}}
	quota.Spec.Hard = corev1.ResourceList{"count/ipclaims.ipam.miloapis.com": resource.MustParse("1")}
	framework.Create(t, admin, quota)
	// kcp enforces a quota a moment after it shows the quota.
	framework.Eventually(t, "the quota to be enforced", func(ctx context.Context) error {
		probe := gen.Claim("probe", gen.OfClass(s.name))
		switch err := s.tenant.Create(ctx, probe); {
		case apierrors.IsForbidden(err):
			return nil
		case err != nil:
			return err
		}
		return cmp.Or(s.tenant.Delete(ctx, probe), errors.New("a claim over the quota was created"))
	})
	for i := range 150 {
		if err := s.tenant.Create(t.Context(), gen.Claim(fmt.Sprintf("over-%d", i), gen.OfClass(s.name))); !apierrors.IsForbidden(err) {
			t.Fatalf("CREATE %d over the quota: %v; want Forbidden", i, err)
		}
	}
	const mostUnseen = 64 // blocks of a workspace whose claims were not seen
	holdsAtMost(t, s.platform, pool, 1+mostUnseen+16)
	neighbour := s.platform.Tenant(t)
	theirs := gen.Claim("theirs", gen.OfClass(s.name), gen.Length(24))
	framework.Bind(t, neighbour, theirs)
	if err := s.tenant.Delete(t.Context(), quota); !apierrors.IsForbidden(err) {
		t.Errorf("a user deletes the quota: %v; want Forbidden", err)
	}
	framework.Delete(t, admin, quota)
	framework.Eventually(t, "a CREATE without the quota", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(s.tenant.Create(ctx, gen.Claim("over-0", gen.OfClass(s.name))))
	})
	framework.WaitBound(t, s.tenant, gen.Claim("over-0"))
}

// A claim that is deleted right after its CREATE releases the block that it was answered. A claim that is made again
// under the same name, however quickly, is another claim.
func TestCreate_FailingToLast(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 24))
	for i := range 40 {
		claim := gen.Claim(fmt.Sprintf("brief-%d", max(0, i-20)), gen.OfClass(s.name), gen.Length(28))
		framework.Create(t, s.tenant, claim)
		framework.Delete(t, s.tenant, claim)
	}
	last := s.holds("brief-0", gen.Length(28))
	waitHeld(t, s.platform, pool, size(blockOf(t, last)))
	framework.Delete(t, s.tenant, last)
	waitHeld(t, s.platform, pool, size())
	for i := range 20 {
		waitUnrecorded(t, s.tenant, fmt.Sprintf("brief-%d", i))
	}
}

// With Retain, such a claim leaves its record with the block if the record was published, and otherwise nothing.
func TestCreate_FailingToLastWithRetain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	pool := s.pool(part(s.cidr, 24))
	claim := gen.Claim("brief", gen.OfClass(s.name), gen.Length(28))
	kept := answered(t, s.tenant, claim, func(ctx context.Context, c client.Writer, claim *ipamv1alpha1.IPClaim) error {
		if err := c.Create(ctx, claim); err != nil || claim.Status.AllocatedCIDR == "" {
			return err
		}
		return c.Delete(ctx, claim.DeepCopy())
	})
	framework.Eventually(t, "the block to be retained with its record, or to be free", func(ctx context.Context) error {
		records := &ipamv1alpha1.IPAllocationList{}
		if err := cmp.Or(s.tenant.List(ctx, records), s.platform.Get(ctx, client.ObjectKeyFromObject(pool), pool)); err != nil {
			return err
		}
		held, want := pool.Status.Capacity.Allocated, "0"
		for i := range records.Items {
			record := &records.Items[i]
			name, uid := record.HeldBy()
			if record.Spec.ClaimRef != nil || record.Status.AllocatedCIDR != kept.Status.AllocatedCIDR || name != kept.Name || uid != kept.UID {
				return fmt.Errorf("the record keeps %s of %s/%s; want %s of %s/%s", record.Status.AllocatedCIDR, name, uid, kept.Status.AllocatedCIDR, kept.Name, kept.UID)
			}
			want = "16"
		}
		if held != want {
			return fmt.Errorf("%s addresses are held, with %d records", held, len(records.Items))
		}
		return nil
	})
}

// holdsAtMost fails the test if the status of a pool shows more allocated addresses.
func holdsAtMost(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool, addresses int64) {
	t.Helper()
	framework.Read(t, c, pool)
	taken, ok := new(big.Int).SetString(pool.Status.Capacity.Allocated, 10)
	if !ok || taken.Cmp(big.NewInt(addresses)) > 0 {
		t.Errorf("of the pool %s addresses are taken, want %d at most", pool.Status.Capacity.Allocated, addresses)
	}
}

// The webhook is called before the server checks a name. A claim with a name that no object may have takes no block:
// the ledger would keep the name, however long it is, and no server could be asked for such a claim.
func TestCreate_FailingByName(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(part(s.cidr, 28))
	for what, metadata := range map[string]string{
		"a name with a slash":            `"name": "a/b"`,
		"a name with a percent sign":     `"name": "a%2fb"`,
		"a name of two dots":             `"name": ".."`,
		"a name of capitals":             `"name": "WEB"`,
		"a name with a line break":       `"name": "web\nweb"`,
		"a name of 254 bytes":            fmt.Sprintf(`"name": %q`, strings.Repeat("x", 254)),
		"a name of a megabyte":           fmt.Sprintf(`"name": %q`, strings.Repeat("x", 1<<20)),
		"a generated name with a slash":  `"generateName": "a/b-"`,
		"a generated name with capitals": `"generateName": "WEB-"`,
	} {
		body := fmt.Sprintf(`{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {%s}, "spec": SPEC}`, metadata)
		err := newForger(t, "the tenant", s.tenant.Config()).send(attack{body: body}, gen.Claim("any", gen.OfClass(s.name), gen.Length(28)))
		if !apierrors.IsInvalid(err) {
			t.Errorf("CREATE of %s: %v; want Invalid", what, err)
		}
		// The pool has room for one block.
		claim := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
		must.Do(t, s.tenant.Create(t.Context(), claim, client.DryRunAll))
		if claim.Status.Phase == ipamv1alpha1.ClaimPending {
			t.Fatalf("%s took the block of the pool: a claim would be answered with %+v", what, claim.Status.Conditions)
		}
	}
	framework.WaitBound(t, s.tenant, s.holds("web", gen.Length(28)))
}
