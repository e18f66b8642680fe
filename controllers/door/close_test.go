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
