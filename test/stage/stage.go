// Package stage runs commands of the plugin in tests: sessions whose output is read, golden files, and
// objects in the states that the commands show.
package stage

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

var update = flag.Bool("update", false, "write the golden files again")

// Noon is the time of every test.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Stage is a session whose output a test reads.
type Stage struct {
	*session.Session
	Printed, Said *bytes.Buffer
}

// New makes a session without a server, at noon.
func New(t *testing.T) Stage {
	t.Helper()
	streams, _, out, errs := genericiooptions.NewTestIOStreams()
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(nowhere, []byte("{apiVersion: v1, kind: Config}\n"), 0o600))
	t.Setenv("KUBECONFIG", nowhere)
	s := session.New(streams)
	s.Now = func() time.Time { return Noon }
	return Stage{s, out, errs}
}

// Golden fails the test unless got is the content of the golden file of that name.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(file))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it again:\n%s", file, diff)
	}
}

// HourAgo is when most objects of the tests were made.
var HourAgo = gen.Created(Noon.Add(-time.Hour))

// Allocated makes the condition Allocated. It is true if the reason is a success.
func Allocated(reason ipamv1alpha1.Reason, message string) []metav1.Condition {
	status := metav1.ConditionFalse
	if reason == ipamv1alpha1.ReasonAllocationSucceeded {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: status, Reason: string(reason), Message: message}}
}

// Ready gives a pool its block, with that percentage of its addresses used.
func Ready(pool *ipamv1alpha1.IPPool, cidr string, family ipamv1alpha1.IPFamily, percent float64, largest int32) *ipamv1alpha1.IPPool {
	pool.Status = ipamv1alpha1.IPPoolStatus{
		Phase: ipamv1alpha1.PoolReady, AllocatedCIDR: cidr, IPFamily: family, UtilizationPercent: &percent,
		Conditions: Allocated(ipamv1alpha1.ReasonAllocationSucceeded, "holds "+cidr),
	}
	if largest != 0 {
		pool.Status.LargestFreePrefix = &largest
	}
	return pool
}

// Bound gives a claim a block.
func Bound(claim *ipamv1alpha1.IPClaim, cidr string, from ipamv1alpha1.PoolRef) *ipamv1alpha1.IPClaim {
	claim.Status = ipamv1alpha1.IPClaimStatus{
		Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: cidr, ClassName: claim.Spec.ClassName, IPFamily: ipamv1alpha1.IPv4, PoolRef: &from,
		BoundAllocationRef: &ipamv1alpha1.LocalRef{Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name)},
		Conditions:         Allocated(ipamv1alpha1.ReasonAllocationSucceeded, "bound to "+cidr),
	}
	return claim
}

// Waiting makes a claim wait for a reason.
func Waiting(claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason, message string) *ipamv1alpha1.IPClaim {
	claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimPending, Conditions: Allocated(reason, message)}
	return claim
}

// OfPlatform refers to a pool of the workspace root:ipam.
func OfPlatform(name string) ipamv1alpha1.PoolRef {
	return ipamv1alpha1.PoolRef{Name: name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}
}

// Server returns a client of a fake server with these objects. Requests go through funcs, except LIST.
func Server(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	must.Do(t, ipamv1alpha1.AddToScheme(scheme))
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	funcs.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, l, opts...)
		l.SetResourceVersion("1") // which the fake leaves out, and a watch begins with
		return err
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&ipamv1alpha1.IPClaim{}, metav1.ObjectNameField, byName).
		WithIndex(&ipamv1alpha1.IPPool{}, metav1.ObjectNameField, byName).
		WithIndex(&ipamv1alpha1.IPAllocation{}, metav1.ObjectNameField, byName).
		WithInterceptorFuncs(funcs).Build()
}
