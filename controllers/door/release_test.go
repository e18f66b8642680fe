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
