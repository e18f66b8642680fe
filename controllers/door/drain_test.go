package door

import (
	"context"
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
