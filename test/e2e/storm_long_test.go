//go:build long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/chaos/history"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A tenant that makes hundreds of claims at once gets what its limit allows. Its other claims are answered, too, and
// then cost nothing more. Another tenant is served meanwhile.
func TestLong_StormOfOneTenant(t *testing.T) {
	t.Parallel()
	const claims, allowed = 200, 32
	platform, tenant, pool := alone(t)
	other := platform.Tenant(t)
	framework.Update(t, platform, pool, func(pool *ipamv1alpha1.IPPool) {
		pool.Spec.MaxPerConsumer = ipamv1alpha1.AddressCount(strconv.Itoa(allowed))
	})
	waitIdle(t, platform, 0)
	before := readMeters(t, platform)

	storm := &errgroup.Group{}
	begun := make(chan struct{})
	storm.Go(func() error {
		each := &errgroup.Group{}
		each.SetLimit(16)
		for i := range claims {
			if i == claims/3 {
				close(begun)
			}
			claim := gen.Claim(fmt.Sprint("storm-", i), gen.OfClass(pool.Name), gen.Length(32))
			each.Go(func() error { return insist(t.Context(), tenant, claim) })
		}
		return each.Wait()
	})
	<-begun
	quiet := gen.Claim("quiet", gen.OfClass(pool.Name), gen.Length(28))
	framework.Bind(t, other, quiet)
	must.Do(t, storm.Wait())
	bound := waitAnswers(t, tenant, allowed, claims-allowed)
	waitRest(t, platform) // the controller sees each of its answers again in a watch
	// One reconcile answers, and one sees what the first has written. A few more have other reasons.
	if n := looks(readMeters(t, platform).since(before)); n >= 3*(claims+1) {
		t.Errorf("%d looks at %d claims; want two at each", n, claims+1)
	}

	before = readMeters(t, platform)
	framework.Delete(t, tenant, bound[0])
	framework.WaitGone(t, tenant, bound[0])
	waitAnswers(t, tenant, allowed, claims-allowed-1)
	waitIdle(t, platform, 0)
	if n := looks(readMeters(t, platform).since(before)); n >= 20 {
		t.Errorf("%d looks for one claim that goes and one that gets its block; nobody else is to be looked at", n)
	}
	unchanged(t, other, quiet)
}

// waitAnswers waits until that many claims of a tenant are bound, and that many are over its limit. It returns the
// bound claims.
func waitAnswers(t *testing.T, tenant *framework.Tenant, bound, over int) []*ipamv1alpha1.IPClaim {
	t.Helper()
	var held []*ipamv1alpha1.IPClaim
	framework.Eventually(t, "every claim to have its answer", func(ctx context.Context) error {
		claims := &ipamv1alpha1.IPClaimList{}
		if err := tenant.List(ctx, claims); err != nil {
			return err
		}
		held = nil
		refused := 0
		for i := range claims.Items {
			answer := meta.FindStatusCondition(claims.Items[i].Status.Conditions, ipamv1alpha1.ConditionAllocated)
			switch {
			case answer == nil:
			case answer.Status == metav1.ConditionTrue:
				held = append(held, &claims.Items[i])
			case answer.Reason == string(ipamv1alpha1.ReasonQuotaExceeded):
				refused++
			}
		}
		if len(held) != bound || refused != over {
			return fmt.Errorf("of %d claims %d are bound, and %d over the limit", len(claims.Items), len(held), refused)
		}
		return nil
	})
	return held
}

// looks counts the reconciles of claims.
func looks(m meters) int {
	sum := 0
	for pass, n := range m.passes {
		if strings.HasPrefix(pass, "claim ") {
			sum += n
		}
	}
	return sum
}

const (
	// stormNames is how many names the users of a storm share.
	stormNames = 5
	// stormSteps is how many steps each of them takes.
	stormSteps = 60
)

// Users of one workspace create and delete claims of the same few names as fast as they can: with different specs
// under one name, by every kind of CREATE, retained and reused, and in namespaces that are deleted meanwhile. At no
// revision of kcp do two claims share an address, no claim ever shows another address than its CREATE was answered
// with, and in the end nothing is left.
func TestLong_StormOfNames(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "sweeping", sweeping...)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, part(platform.CIDR(t), 25), gen.Cooldown("1s"))
	seen := must.Get(history.Follow(t.Context(), framework.Store(t)))(t)
	defer seen.Close()
	tenant := platform.Tenant(t)
	seen.Include(tenant.Cluster.String())
	owner := tenant.Owner(t)
	var users sync.WaitGroup
	for i := range 4 {
		seed := rand.Uint64()
		t.Logf("user %d has the seed %d", i, seed)
		users.Go(func() {
			u := stormer{T: t, Client: owner, class: name, number: i, random: rand.New(rand.NewPCG(seed, 0))}
			u.run()
		})
	}
	users.Wait()
	calm(t, platform, owner, pool)
	platform.WaitVerified(t)
	for _, problem := range seen.Problems() {
		t.Error(problem)
	}
	given, reused, _ := seen.Counts()
	t.Logf("%d claims were bound, %d of them to blocks of former ones", given, reused)
	if reused == 0 {
		t.Error("no block was given twice in a row: the storm has proven little")
	}
}

// stormer is one user of a storm.
type stormer struct {
	*testing.T
	client.Client
	class  string
	number int
	random *rand.Rand
}

func (u stormer) run() {
	for step := range stormSteps {
		if u.Context().Err() != nil {
			return
		}
		if u.random.IntN(20) == 0 {
			u.brief(fmt.Sprintf("brief-%d-%d", u.number, step))
			continue
		}
		u.step(metav1.NamespaceDefault)
	}
}

// step takes a random action with one of the names.
func (u stormer) step(namespace string) {
	claim := u.claim(namespace)
	switch u.random.IntN(8) {
	case 0, 1:
		u.delete(claim)
	case 2:
		u.delete(claim)
		u.create(claim, create)
	case 3:
		u.create(claim, create)
		u.delete(claim.DeepCopy())
	case 4:
		u.create(claim, apply)
	case 5:
		u.create(claim, func(ctx context.Context, c client.Writer, claim *ipamv1alpha1.IPClaim) error {
			return c.Create(ctx, claim, client.DryRunAll)
		})
	case 6:
		u.free(claim)
	default:
		u.create(claim, create)
	}
}

// claim returns a claim with one of the names, and a random spec.
func (u stormer) claim(namespace string) *ipamv1alpha1.IPClaim {
	claim := gen.Claim(fmt.Sprint("n", u.random.IntN(stormNames)), gen.Namespace(namespace), gen.OfClass(u.class), gen.Length(28+u.random.Int32N(2)))
	claim.Spec.ReclaimPolicy = []ipamv1alpha1.ReclaimPolicy{"", "", ipamv1alpha1.ReclaimRetain}[u.random.IntN(3)]
	claim.Spec.RetainedPolicy = []ipamv1alpha1.RetainedPolicy{"", ipamv1alpha1.RetainedReuse}[u.random.IntN(2)]
	claim.Spec.UnmetPolicy = []ipamv1alpha1.UnmetPolicy{"", ipamv1alpha1.UnmetRefuse}[u.random.IntN(2)]
	return claim
}

// create creates a claim. If the claim shows a block, it must go on showing that block.
func (u stormer) create(claim *ipamv1alpha1.IPClaim, by func(context.Context, client.Writer, *ipamv1alpha1.IPClaim) error) {
	claim.ResourceVersion, claim.UID, claim.Status = "", "", ipamv1alpha1.IPClaimStatus{}
	err := by(u.Context(), u, claim)
	if code := apierrors.ReasonForError(err); err != nil && code == metav1.StatusReasonUnknown && u.Context().Err() == nil {
		u.Errorf("CREATE of claim %s: %v; want a reason", claim.Name, err)
	}
}

// delete deletes a claim, by name.
func (u stormer) delete(claim *ipamv1alpha1.IPClaim) {
	if err := client.IgnoreNotFound(u.Delete(u.Context(), gen.Claim(claim.Name, gen.Namespace(claim.Namespace)))); err != nil {
		u.Errorf("DELETE of claim %s: %v", claim.Name, err)
	}
}

// free deletes the record of a name. A policy refuses that unless the record is retained. On a busy machine that may
// not be decided in time: then the answer is 503.
func (u stormer) free(claim *ipamv1alpha1.IPClaim) {
	record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name),
	}}
	err := u.Delete(u.Context(), record)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsServiceUnavailable(err) {
		u.Errorf("DELETE of IPAllocation %s: %v", record.Name, err)
	}
}

// brief makes a namespace with claims, and deletes it while the claims come and go.
func (u stormer) brief(name string) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	framework.Create(u, u, namespace)
	for range 3 {
		u.create(u.claim(name), create)
	}
	framework.Delete(u, u, namespace)
	for range 3 {
		u.create(u.claim(name), create)
	}
}

// calm deletes all claims and all retained records, until nothing of the pool is held. A block that was answered
// twice is retained once no CREATE is under way any longer: see promise.Grace.
func calm(t *testing.T, platform *framework.Platform, owner client.Client, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.Within(t, 10*framework.Patience, "nothing to be left of the storm", func(ctx context.Context) error {
		claims, records := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}
		err := errors.Join(owner.List(ctx, claims), owner.List(ctx, records), platform.Get(ctx, client.ObjectKeyFromObject(pool), pool))
		if err != nil {
			return err
		}
		for i := range claims.Items {
			_ = owner.Delete(ctx, &claims.Items[i])
		}
		for i := range records.Items {
			if records.Items[i].Spec.ClaimRef == nil {
				_ = owner.Delete(ctx, &records.Items[i])
			}
		}
		if held := pool.Status.Capacity.Allocated; held != "0" || len(claims.Items)+len(records.Items) > 0 {
			return fmt.Errorf("%s addresses are held, and there are %d claims and %d records", held, len(claims.Items), len(records.Items))
		}
		return nil
	})
}

// A hundred networks with ten interfaces each come at once and go, and nothing of them is left.
func TestLong_NetworksComeAndGo(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	t.Run("all", func(t *testing.T) { c.with(t, dual).comeAndGo(100, 10) })
	c.hasNothingLeft()
}
