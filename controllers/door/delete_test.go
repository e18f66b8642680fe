package door

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// deletes implements Drainer, Releaser, Closer and Retirer by the functions of a test.
type deletes struct {
	drained  func(pool Pool)
	released func(in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error)
	closed   func(in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool) (string, error)
	retired  func(in ledger.ClusterName, pool *ipamv1alpha1.IPPool, dry bool) (string, error)
	classed  func(class string) (string, error)
}

// decider is a Decider: an Answerer for CREATEs, and deletes for DELETEs.
type decider struct {
	Answerer
	deletes
}

func (d deletes) Drained(_ context.Context, pool Pool) { d.drained(pool) }

func (d deletes) Released(_ context.Context, in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error) {
	return d.released(in, record)
}

func (d deletes) CloseRange(_ context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool) (string, error) {
	return d.closed(in, claim, dry)
}

func (d deletes) RetirePool(_ context.Context, in ledger.ClusterName, pool *ipamv1alpha1.IPPool, dry bool) (string, error) {
	return d.retired(in, pool, dry)
}

func (d deletes) RetireClass(_ context.Context, class string) (string, error) {
	return d.classed(class)
}

// deleting asks a door about the DELETE of an object, at a path for its resource.
func deleting(t *testing.T, path, resource, old string, dry bool, only ledger.ClusterName, by deletes) *admissionv1.AdmissionResponse {
	t.Helper()
	ring := newRing(t, newFake())
	server := newServer(decider{never(t), by}, only, ring.token)
	s := serve(t, ring, server)
	return s.review("/"+s.token+path, &admissionv1.AdmissionRequest{
		UID: "4711", Resource: metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource(resource)),
		Operation: admissionv1.Delete, DryRun: &dry, OldObject: runtime.RawExtension{Raw: []byte(old)},
	})
}

// The door waits for the pool that a DELETE names, and then allows the DELETE: the policy decides.
func TestDrain_WaitsForThePoolAndRefusesNothing(t *testing.T) {
	const pool = `{"metadata":{"name":"lab","uid":"u1","annotations":{"kcp.io/cluster":"t1"}},"status":{}}`
	for only, want := range map[ledger.ClusterName]Pool{"": {"t1", "lab", "u1"}, "alone": {"alone", "lab", "u1"}} {
		asked := make(chan Pool, 1)
		resp := deleting(t, "/drain", "ippools", pool, false, only, deletes{drained: func(pool Pool) { asked <- pool }})
		if !resp.Allowed || resp.Patch != nil {
			t.Errorf("the response is %+v, want that it allows, and patches nothing", resp)
		}
		if got := <-asked; got != want {
			t.Errorf("the pool %+v was waited for, want %+v", got, want)
		}
	}
}

// The DELETE of a record whose claim is gone is answered that the record is not there. If nobody can tell, the DELETE
// fails. Any other DELETE is left to the policy.
func TestRelease_AnswersForARecordThatIsGone(t *testing.T) {
	const record = `{"metadata":{"name":"web-1","namespace":"n","uid":"u1","annotations":{"kcp.io/cluster":"t1"}},"spec":{"claimRef":{"name":"web","uid":"u2"}}}`
	for name, tt := range map[string]struct {
		gone bool
		err  error
		dry  bool
		want int32 // 0: allowed
	}{
		"gone": {gone: true, want: http.StatusNotFound}, "there": {},
		"not known": {err: errors.New("no server answers"), want: http.StatusServiceUnavailable}, "a dry run": {gone: true, dry: true},
	} {
		asked := false
		resp := deleting(t, "/release", "ipallocations", record, tt.dry, "", deletes{released: func(in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error) {
			asked = true
			if holder, uid := record.HeldBy(); in != "t1" || record.Namespace != "n" || holder != "web" || uid != "u2" {
				t.Errorf("%s: it is asked for %+v of %s", name, record, in)
			}
			return tt.gone, tt.err
		}})
		if asked == tt.dry {
			t.Errorf("%s: asked is %t", name, asked)
		}
		if resp.Allowed != (tt.want == 0) || !resp.Allowed && (resp.Result.Code != tt.want || resp.Result.Reason != statusReasons[tt.want]) {
			t.Errorf("%s: the response is %+v, want the code %d", name, resp, tt.want)
		}
	}
}

// The DELETE of a range claim is refused with a Conflict while something is inside, and as unavailable if nobody can tell.
func TestCloseRange_RefusesWhileSomethingIsInside(t *testing.T) {
	const claim = `{"metadata":{"name":"net","namespace":"n","uid":"u1","annotations":{"kcp.io/cluster":"t1"}},"spec":{"target":"ScopeRange"}}`
	for name, tt := range map[string]struct {
		inside string
		err    error
		code   int32
		reason metav1.StatusReason
	}{
		"empty": {}, "in use": {"two are inside", nil, http.StatusConflict, "Conflict"},
		"not known":   {"", errors.New("secret"), http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
		"not settled": {"one may be inside", errors.New("secret"), http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
	} {
		for _, dry := range []bool{false, true} {
			resp := deleting(t, "/close", "ipclaims", claim, dry, "", deletes{closed: func(in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, isDry bool) (string, error) {
				if in != "t1" || claim.Name != "net" || claim.UID != "u1" || isDry != dry {
					t.Errorf("%s: it is asked for %s of %s, dry run %t", name, claim.Name, in, isDry)
				}
				return tt.inside, tt.err
			}})
			switch {
			case resp.Allowed != (tt.code == 0):
				t.Errorf("%s: allowed is %t", name, resp.Allowed)
			case resp.Allowed:
			case resp.Result.Code != tt.code || resp.Result.Reason != tt.reason || tt.inside != "" && resp.Result.Message != tt.inside:
				t.Errorf("%s: the result is %+v, want %d %s", name, resp.Result, tt.code, tt.reason)
			}
		}
	}
}

// closing opens a door with this Closer. It returns a function that asks the door about the DELETE of a claim in a
// workspace. The claim has an annotation of so many bytes.
func closing(t *testing.T, by deletes) (remove func(cluster string, annotated int, dry bool)) {
	t.Helper()
	ring := newRing(t, newFake())
	server := newServer(decider{never(t), by}, "", ring.token)
	s := serve(t, ring, server)
	return func(cluster string, annotated int, dry bool) {
		claim := fmt.Sprintf(`{"metadata":{"name":"net","namespace":"n","uid":"u1","annotations":{"kcp.io/cluster":%q,"note":%q}},"spec":{"target":"ScopeRange"}}`,
			cluster, strings.Repeat("x", annotated))
		resp := s.review("/"+s.token+"/close", &admissionv1.AdmissionRequest{
			UID: "4711", Resource: metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource("ipclaims")),
			Operation: admissionv1.Delete, DryRun: &dry, OldObject: runtime.RawExtension{Raw: []byte(claim)},
		})
		if !resp.Allowed {
			t.Errorf("the DELETE in %s is answered %+v", cluster, resp.Result)
		}
	}
}

// However many large DELETEs of one workspace wait, the DELETEs of another workspace are decided. A DELETE that waits
// keeps only a small part of its claim in memory.
func TestCloseRange_DecidesOthersWhileLargeDeletesWait(t *testing.T) {
	const large = 2 * largeBody
	waits, wake := make(chan struct{}, 2*largeInFlight), make(chan struct{})
	remove := closing(t, deletes{closed: func(in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, _ bool) (string, error) {
		if kept := len(must.Get(json.Marshal(claim))(t)); kept > largeBody {
			t.Errorf("%d bytes of a claim are kept", kept)
		}
		if in == "storm" {
			waits <- struct{}{}
			<-wake
		}
		return "", nil
	}})
	var storm sync.WaitGroup
	defer storm.Wait()
	defer close(wake)
	for range largeInFlight {
		storm.Go(func() { remove("storm", large, false) })
		<-waits
	}
	remove("calm", large, false)
}

// Dry runs of DELETEs, which a user may send in a loop, have a share of their own in each workspace.
func TestCloseRange_LimitsConcurrentDryRuns(t *testing.T) {
	var now, most atomic.Int32
	waits, wake := make(chan struct{}, 3*dryShare), make(chan struct{})
	remove := closing(t, deletes{closed: func(in ledger.ClusterName, _ *ipamv1alpha1.IPClaim, dry bool) (string, error) {
		if dry && in == "storm" {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			waits <- struct{}{}
			<-wake
		}
		return "", nil
	}})
	var storm sync.WaitGroup
	for range 3 * dryShare {
		storm.Go(func() { remove("storm", 0, true) })
	}
	for range dryShare {
		<-waits
	}
	remove("storm", 0, false)
	remove("calm", 0, true)
	close(wake)
	storm.Wait()
	if got := most.Load(); got > dryShare {
		t.Errorf("%d dry runs of one workspace ran at once, want %d at most", got, dryShare)
	}
}

// The webhooks are called for the DELETE of a pool that shows blocks, of an IPAllocation that names a claim, and of a
// claim that holds a range, unless the system deletes it. The webhooks are not called when a namespace is deleted.
func TestDelete_IsCalledUnlessTheSystemDeletes(t *testing.T) {
	const used, unused = `status: {conditions: [{type: InUse, status: "True"}]}`, `status: {conditions: [{type: InUse, status: "False"}]}`
	const held, ranged, block, bare = `spec: {claimRef: {name: web}}`, `spec: {target: ScopeRange}`, `spec: {target: Block}`, `spec: {}`
	namespaces := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:namespace-controller"}
	drain, release, closes := registered.drain(), registered.release(), registered.closeRange()
	for name, tt := range map[string]struct {
		of   admissionregistrationv1.MutatingWebhook
		by   user.Info
		old  string
		want bool
	}{
		"a pool in use": {drain, tenant, used, true}, "an unused pool": {drain, tenant, unused, false}, "a pool without a status": {drain, tenant, bare, false},
		"a pool, by the controller": {drain, controller, used, false}, "a pool, by kcp": {drain, masters, used, false},
		"a held record": {release, tenant, held, true}, "a retained record": {release, tenant, bare, false},
		"a record, by the controller": {release, controller, held, false}, "a record, by kcp": {release, masters, held, false},
		"a record, with its namespace": {release, namespaces, held, false},
		"a range":                      {closes, tenant, ranged, true}, "a block": {closes, tenant, block, false}, "a claim without a target": {closes, tenant, bare, false},
		"a range, by the controller": {closes, controller, ranged, false}, "a range, by kcp": {closes, masters, ranged, false},
		"a range, with its namespace": {closes, namespaces, ranged, false},
	} {
		if got := called(t, tt.of.MatchConditions, tt.by, tt.old, tt.old); got != tt.want {
			t.Errorf("%s: called is %t, want %t", name, got, tt.want)
		}
	}
	for want, of := range map[string]admissionregistrationv1.MutatingWebhook{
		"Cluster ippools": drain, "Namespaced ipallocations": release, "Namespaced ipclaims": closes,
	} {
		if got := string(*of.Rules[0].Scope) + " " + of.Rules[0].Resources[0]; got != want {
			t.Errorf("%s is for %s, want %s", of.Name, got, want)
		}
	}
}
