package release

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// promiseScene is a Controller with a real ledger. The CREATE of the claim default/c of the workspace w was answered
// with the block given.
type promiseScene struct {
	reader allocator.Reader
	*Controller
	*testing.T
	ledger    *allocator.Allocator
	oracle    *oracle
	clock     *clocktesting.FakePassiveClock
	workspace client.Client
	given     ledger.Block
}

func newPromise(t *testing.T, policy ipamv1alpha1.ReclaimPolicy) *promiseScene {
	t.Helper()
	client := etcdtest.New(t).Client()
	alloc := testbed.Ledger(t, client, allocator.Options{History: time.Hour}, testbed.Pool("w", "p", "10.0.0.0/24"))
	p := &promiseScene{
		T: t, ledger: alloc, reader: allocator.Reader{Client: client}, oracle: &oracle{}, clock: clocktesting.NewFakePassiveClock(time.Now()),
		workspace: newSceneWith(t, interceptor.Funcs{}).workspace,
	}
	p.Controller = newController(complete(Options{
		Ledger: views.Of(alloc), Oracle: p.oracle, Clock: p.clock,
		Answers: promise.NewAnswers(testbed.Stopped{PassiveClock: p.clock}, func(ledger.Holder) {}),
	}))
	t.Cleanup(p.queue.ShutDown)
	p.given = p.create(policy)
	return p
}

// create answers a CREATE of the claim, and returns the block of the answer.
func (p *promiseScene) create(policy ipamv1alpha1.ReclaimPolicy) ledger.Block {
	p.Helper()
	return p.createIn("p", policy)
}

// createIn answers a CREATE of the claim with a block of a pool.
func (p *promiseScene) createIn(pool ledger.PoolID, policy ipamv1alpha1.ReclaimPolicy) ledger.Block {
	p.Helper()
	holder := ledger.Holder{Claim: promise.NewID("w", "default", "c"), Cluster: "w", Namespace: "default", Name: "c"}
	must.Do(p, p.Answers.Begin(holder))
	p.Answers.Stored(holder) // as most are, at once
	return must.Get(p.ledger.Bind(p.Context(), ledger.Request{
		Pool: pool, Length: 28, Policy: ledger.ReclaimPolicy(policy), Since: time.Now(), Holder: holder,
	}))(p)
}

// answered returns the claim with this UID, as its CREATE was answered: it shows the block given.
func (p *promiseScene) answered(uid types.UID) *ipamv1alpha1.IPClaim {
	return answeredWith(p.given, gen.Claim("c", gen.UID(uid)))
}

// answeredWith makes a claim show a block, as the answer to its CREATE does.
func answeredWith(b ledger.Block, claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	claim.Status = ipamv1alpha1.IPClaimStatus{
		Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: b.Prefix.String(), AllocationID: types.UID(b.Holder.Claim), PoolRef: &ipamv1alpha1.PoolRef{Name: string(b.Pool)},
	}
	outcome.Succeed(&claim.Status.Conditions, 1, "bound")
	record.Date(claim.Status.Conditions, b)
	return claim
}

func holderOf(claim *ipamv1alpha1.IPClaim) ledger.Holder { return promise.HolderOf("w", claim) }

// pass sets the clock to the moment at which the block is this old.
func (p *promiseScene) pass(age time.Duration) { p.clock.SetTime(p.given.BoundAt.Add(age)) }

// settles settles a hint at a holder. The servers have this verdict. now is the claim that has the holder's name at the
// server; nil: none.
func (p *promiseScene) settles(h ledger.Holder, verdict live.Verdict, now *ipamv1alpha1.IPClaim) bool {
	p.Helper()
	p.oracle.answer = live.Answer{Verdict: verdict, Client: p.workspace}
	if now != nil {
		p.oracle.answer.Object = now
	}
	return must.Get(p.Settle(p.Context(), h))(p)
}

// settled fails the test unless a hint at a holder who is gone is settled. now is as for settles.
func (p *promiseScene) settled(h ledger.Holder, now *ipamv1alpha1.IPClaim) {
	p.Helper()
	if !p.settles(h, live.Gone, now) {
		p.Errorf("a hint at %s is not settled", h.Claim)
	}
}

func (p *promiseScene) wantBlocks(want ...string) {
	p.Helper()
	testbed.WantBlocks(p, p.ledger, want...)
}

// is returns the block in a state, as wantBlocks writes it.
func (p *promiseScene) is(state ledger.BlockState) string {
	return fmt.Sprintf("%s %s %s", p.given.Prefix, state, p.given.Holder.Claim)
}

// kept reads the record of the claim's name; nil if there is none.
func (p *promiseScene) kept() *ipamv1alpha1.IPAllocation { return recordIn(p.T, p.workspace) }

// recordFor returns the record of the claim c with this UID, for the block given.
func (p *promiseScene) recordFor(uid types.UID) *ipamv1alpha1.IPAllocation {
	own := gen.Allocation("c", "p", "10.0.0.0/28")
	own.Spec.ClaimRef.UID, own.Spec.ClaimRef.AllocationID = uid, types.UID(p.given.Holder.Claim)
	return own
}

// records creates the record of the claim with the UID a, as its reconcile does.
func (p *promiseScene) records() {
	p.Helper()
	must.Do(p, p.workspace.Create(p.Context(), p.recordFor("a")))
}

// goes hints that the deletion of the claim with the UID a was seen. The claim showed the block given. goes returns the
// claim as a holder.
func (p *promiseScene) goes() ledger.Holder {
	claim := p.answered("a")
	p.Deleted(holderOf(claim), claim, nil)
	return holderOf(claim)
}
