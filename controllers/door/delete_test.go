package door

import (
	"context"
	"errors"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// drainerFunc is a Drainer.
type drainerFunc func(ctx context.Context, pool Pool)

func (f drainerFunc) Drained(ctx context.Context, pool Pool) { f(ctx, pool) }

// The DELETE of a pool is allowed, after the pool that is meant was waited for: the policy decides.
func TestDrain_WaitsForThePoolAndRefusesNothing(t *testing.T) {
	const pool = `{"metadata":{"name":"lab","uid":"u1","annotations":{"kcp.io/cluster":"t1"}},"status":{}}`
	for only, want := range map[ledger.ClusterName]Pool{"": {"t1", "lab", "u1"}, "alone": {"alone", "lab", "u1"}} {
		asked := make(chan Pool, 1)
		ring := newRing(t, newFake())
		server := newServer(nil, only, ring.token)
		server.drainer = drainerFunc(func(_ context.Context, pool Pool) { asked <- pool })
		s := serve(t, ring, server)
		resource := metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource("ippools"))
		resp := s.review("/"+s.token+"/drain", &admissionv1.AdmissionRequest{
			UID: "4711", Resource: resource, Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: []byte(pool)},
		})
		if !resp.Allowed || resp.Patch != nil {
			t.Errorf("the response is %+v, want that it allows, and patches nothing", resp)
		}
		if got := <-asked; got != want {
			t.Errorf("the pool %+v was waited for, want %+v", got, want)
		}
	}
}

// drain is called for pools that show blocks, unless the system deletes them.
func TestDrain_IsCalledForPoolsInUse(t *testing.T) {
	const used, unused = `status: {conditions: [{type: InUse, status: "True"}]}`, `status: {conditions: [{type: InUse, status: "False"}]}`
	for name, tt := range map[string]struct {
		by   user.Info
		pool string
		want bool
	}{
		"in use": {tenant, used, true}, "unused": {tenant, unused, false}, "without a status": {tenant, `spec: {}`, false},
		"by the controller": {controller, used, false}, "by kcp": {masters, used, false},
	} {
		if got := called(t, registered.drain().MatchConditions, tt.by, tt.pool, tt.pool); got != tt.want {
			t.Errorf("%s: called is %t, want %t", name, got, tt.want)
		}
	}
	rule := registered.drain().Rules[0]
	if rule.Resources[0] != "ippools" || *rule.Scope != "Cluster" || registered.answer().Rules[0].Resources[0] != "ipclaims" {
		t.Errorf("the rule is %+v; want pools, and that of answer as it was", rule)
	}
}

// releaserFunc is a Releaser.
type releaserFunc func(in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error)

func (f releaserFunc) Released(_ context.Context, in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error) {
	return f(in, record)
}

// The DELETE of a record whose claim is gone is answered that the record is not there. If nobody can tell, it
// fails. All others are left to the policy.
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
		ring := newRing(t, newFake())
		server := newServer(nil, "", ring.token)
		asked := false
		server.releaser = releaserFunc(func(in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error) {
			asked = true
			if holder, uid := record.HeldBy(); in != "t1" || record.Namespace != "n" || holder != "web" || uid != "u2" {
				t.Errorf("%s: it is asked for %+v of %s", name, record, in)
			}
			return tt.gone, tt.err
		})
		s := serve(t, ring, server)
		resp := s.review("/"+s.token+"/release", &admissionv1.AdmissionRequest{
			UID: "4711", Resource: metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource("ipallocations")),
			Operation: admissionv1.Delete, DryRun: new(tt.dry), OldObject: runtime.RawExtension{Raw: []byte(record)},
		})
		if asked == tt.dry {
			t.Errorf("%s: asked is %t", name, asked)
		}
		if resp.Allowed != (tt.want == 0) || !resp.Allowed && (resp.Result.Code != tt.want || resp.Result.Reason != statusReasons[tt.want]) {
			t.Errorf("%s: the response is %+v, want the code %d", name, resp, tt.want)
		}
	}
}

// release is called for records of claims, unless the system deletes them, or a namespace goes.
func TestRelease_IsCalledForRecordsOfClaims(t *testing.T) {
	const held, retained = `spec: {claimRef: {name: web}}`, `spec: {}`
	namespaces := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:namespace-controller"}
	for name, tt := range map[string]struct {
		by     user.Info
		record string
		want   bool
	}{
		"held": {tenant, held, true}, "retained": {tenant, retained, false},
		"by the controller": {controller, held, false}, "by kcp": {masters, held, false}, "with its namespace": {namespaces, held, false},
	} {
		if got := called(t, registered.release().MatchConditions, tt.by, tt.record, tt.record); got != tt.want {
			t.Errorf("%s: called is %t, want %t", name, got, tt.want)
		}
	}
	if rule := registered.release().Rules[0]; rule.Resources[0] != "ipallocations" || *rule.Scope != "Namespaced" {
		t.Errorf("the rule is %+v; want records", rule)
	}
}

// closerFunc is a Closer.
type closerFunc func(in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool) (string, error)

func (f closerFunc) CloseRange(_ context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool) (string, error) {
	return f(in, claim, dry)
}

// The DELETE of a range claim is refused with a Conflict while something is inside, and as unavailable if nobody can tell.
func TestCloseRange_Answers(t *testing.T) {
	const claim = `{"metadata":{"name":"net","namespace":"n","uid":"u1","annotations":{"kcp.io/cluster":"t1"}},"spec":{"target":"ScopeRange"}}`
	for name, tt := range map[string]struct {
		inside string
		err    error
		code   int32
		reason metav1.StatusReason
	}{
		"empty": {}, "in use": {"two are inside", nil, http.StatusConflict, "Conflict"},
		"not known": {"", errors.New("secret"), http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
	} {
		for _, dry := range []bool{false, true} {
			ring := newRing(t, newFake())
			server := newServer(nil, "", ring.token)
			server.closer = closerFunc(func(in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, isDry bool) (string, error) {
				if in != "t1" || claim.Name != "net" || claim.UID != "u1" || isDry != dry {
					t.Errorf("%s: it is asked for %s of %s, dry run %t", name, claim.Name, in, isDry)
				}
				return tt.inside, tt.err
			})
			s := serve(t, ring, server)
			resp := s.review("/"+s.token+"/close", &admissionv1.AdmissionRequest{
				UID: "4711", Resource: metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource("ipclaims")),
				Operation: admissionv1.Delete, DryRun: new(dry), OldObject: runtime.RawExtension{Raw: []byte(claim)},
			})
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

// closeRange is called for claims that hold a range, unless the system deletes them, or a namespace goes.
func TestCloseRange_IsCalledForRangeClaims(t *testing.T) {
	const ranged, block, old = `spec: {target: ScopeRange}`, `spec: {target: Block}`, `spec: {}`
	namespaces := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:namespace-controller"}
	for name, tt := range map[string]struct {
		by    user.Info
		claim string
		want  bool
	}{
		"a range": {tenant, ranged, true}, "a block": {tenant, block, false}, "without a target": {tenant, old, false},
		"by the controller": {controller, ranged, false}, "by kcp": {masters, ranged, false}, "with its namespace": {namespaces, ranged, false},
	} {
		if got := called(t, registered.closeRange().MatchConditions, tt.by, tt.claim, tt.claim); got != tt.want {
			t.Errorf("%s: called is %t, want %t", name, got, tt.want)
		}
	}
	if condition := registered.release().MatchConditions[0]; condition.Name != "has-a-claim" {
		t.Errorf("the condition of release is %+v, want it as it was", condition)
	}
}
