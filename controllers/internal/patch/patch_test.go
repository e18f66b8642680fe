package patch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// server counts the writes that it gets, and can refuse the writes of the main object.
type server struct {
	client.Client
	main, status int
	refuse       error
	shown        func(client.Object) // changes the answer to an empty patch
	serves       []string            // versions with a status subresource for claims
	unserved     error               // the error for other versions
}

func newServer(t *testing.T, objects ...client.Object) *server {
	t.Helper()
	s := &server{serves: []string{"v1controller1"}, unserved: notFound}
	s.Client = testbed.NewClient(t).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.IPClaim{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
				s.main++
				if s.refuse != nil {
					return s.refuse
				}
				return c.Patch(ctx, obj, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				s.status++
				obj, ok := s.served(obj)
				if !ok {
					return s.unserved
				}
				data, _ := p.Data(obj)
				if string(data) != "{}" {
					return c.SubResource(sub).Patch(ctx, obj, p, opts...)
				}
				if applied := (&client.SubResourcePatchOptions{}).ApplyOptions(opts); !slices.Equal(applied.DryRun, []string{metav1.DryRunAll}) {
					t.Error("an object is read by a patch that is not a dry run: kcp may store it again")
				}
				err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj) // the fake makes up a version for a dry run
				if s.shown != nil {
					s.shown(obj)
				}
				return err
			},
		}).Build()
	return s
}

// notFound is kcp's answer if the object is gone, and also if kcp does not serve the subresource.
var notFound = apierrors.NewNotFound(ipamv1alpha1.Resource("ipclaims"), "c")

// served returns a claim in the version that the fake stores. ok is false if the version of obj has no status
// subresource.
func (s *server) served(obj client.Object) (stored client.Object, ok bool) {
	if claim, ok := obj.(*v1controller1.IPClaim); ok {
		return &claim.IPClaim, slices.Contains(s.serves, "v1controller1")
	}
	return obj, slices.Contains(s.serves, "v1alpha1")
}

// change reads the claim, changes it and patches it.
func (s *server) change(t *testing.T, change func(*ipamv1alpha1.IPClaim)) error {
	t.Helper()
	claim := gen.Claim("c")
	testbed.Read(t, s, claim)
	before := patch.Snapshot(claim)
	change(claim)
	return before.Patch(t.Context(), s, claim)
}

func TestPatch_WritesWhatChangedAndNothingElse(t *testing.T) {
	label := func(c *ipamv1alpha1.IPClaim) { metav1.SetMetaDataLabel(&c.ObjectMeta, "a", "b") }
	phase := func(c *ipamv1alpha1.IPClaim) { c.Status.Phase = ipamv1alpha1.ClaimBound }
	for _, tt := range []struct {
		name         string
		change       func(*ipamv1alpha1.IPClaim)
		main, status int
	}{
		{"nothing", func(*ipamv1alpha1.IPClaim) {}, 0, 0},
		{"metadata", label, 1, 0},
		{"status", phase, 0, 1},
		{"a column", func(c *ipamv1alpha1.IPClaim) { c.Status.Requested = "/28" }, 0, 0},
		{"status and a column", func(c *ipamv1alpha1.IPClaim) { phase(c); c.Status.Requested = "/28" }, 0, 1},
		{"both", func(c *ipamv1alpha1.IPClaim) { label(c); phase(c) }, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, gen.Claim("c"))
			for pass, want := range []struct{ main, status int }{{tt.main, tt.status}, {0, 0}} {
				s.main, s.status = 0, 0
				must.Do(t, s.change(t, tt.change))
				if s.main != want.main || s.status != want.status {
					t.Errorf("pass %d: %d writes of the object and %d of its status, want %d and %d",
						pass+1, s.main, s.status, want.main, want.status)
				}
			}
		})
	}
}

func TestPatch_StoresBoth(t *testing.T) {
	s := newServer(t, gen.Claim("c"))
	must.Do(t, s.change(t, func(c *ipamv1alpha1.IPClaim) {
		c.Labels = map[string]string{"a": "b"}
		c.Status.AllocatedCIDR = "10.0.0.0/28"
	}))
	got := gen.Claim("c")
	testbed.Read(t, s, got)
	if got.Labels["a"] != "b" || got.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("stored labels %v and status %+v", got.Labels, got.Status)
	}
}

func TestPatch_SendsNoStatusAfterAFailure(t *testing.T) {
	s := newServer(t, gen.Claim("c"))
	s.refuse = errors.New("no")
	err := s.change(t, func(c *ipamv1alpha1.IPClaim) {
		c.Labels = map[string]string{"a": "b"}
		c.Status.Phase = ipamv1alpha1.ClaimBound
	})
	if !errors.Is(err, s.refuse) || s.status != 0 {
		t.Errorf("err = %v after %d writes of the status, want none", err, s.status)
	}
}

// If only the order of a list has changed, and the order means nothing, the list is not written.
func TestPatch_SortsBeforeItCompares(t *testing.T) {
	stored := gen.Claim("c")
	stored.Finalizers = []string{"b.example/x", "a.example/x"}
	stored.Status.Conditions = []metav1.Condition{condition("Stalled", "r"), condition("Allocated", "r")}
	s := newServer(t, stored)
	must.Do(t, s.change(t, func(c *ipamv1alpha1.IPClaim) {
		slices.Reverse(c.Finalizers)
		slices.Reverse(c.Status.Conditions)
	}))
	if s.main != 0 || s.status != 0 {
		t.Errorf("%d writes of the object and %d of its status, want none", s.main, s.status)
	}
}

// A merge patch of one finalizer sends all of them. If an object has more finalizers than the policy admits, the cache
// has only some, and a patch would remove the others. So Patch does not write the finalizers until there are fewer. It
// writes all other changes.
func TestPatch_WritesNoIncompleteListOfFinalizers(t *testing.T) {
	stored := gen.Claim("c")
	for i := range ipamv1alpha1.MaxFinalizers {
		stored.Finalizers = append(stored.Finalizers, fmt.Sprint("example.com/", i))
	}
	stored.Finalizers = append(stored.Finalizers, "ours")
	s := newServer(t, stored.DeepCopy())
	letGo := func(c *ipamv1alpha1.IPClaim) { controllerutil.RemoveFinalizer(c, "ours") }
	if err := s.change(t, letGo); err == nil || !strings.Contains(err.Error(), "remove some") || s.main != 0 {
		t.Errorf("a patch of %d finalizers = %v after %d writes; want a refusal that says what to do, and none", len(stored.Finalizers), err, s.main)
	}
	if err := s.change(t, func(c *ipamv1alpha1.IPClaim) { c.Spec.ClassName = "other" }); err != nil || s.main != 1 {
		t.Errorf("a patch of the spec = %v after %d writes; want one", err, s.main)
	}
	stored.Finalizers = stored.Finalizers[1:]
	s = newServer(t, stored)
	if err := s.change(t, letGo); err != nil || s.main != 1 {
		t.Errorf("a patch of %d finalizers = %v after %d writes; want one", len(stored.Finalizers), err, s.main)
	}
}

func TestPatchWhole_WritesOnceAtMost(t *testing.T) {
	s := newServer(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	for pass, want := range []int{1, 0} {
		s.main = 0
		record := gen.Allocation("c", "p", "10.0.0.0/28")
		testbed.Read(t, s, record)
		before := patch.Snapshot(record)
		record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
		record.Status.Address = "10.0.0.0"
		must.Do(t, before.PatchWhole(t.Context(), s, record))
		if s.main != want || s.status != 0 {
			t.Errorf("pass %d: %d writes of the object and %d of its status, want %d and 0", pass+1, s.main, s.status, want)
		}
	}
}

// If the status of a claim is written, Patch returns NotFound even if the claim is being deleted, because kcp also
// answers so while it moves a workspace to another schema. For any other object that is being deleted, Patch ignores
// NotFound.
func TestPatch_IgnoresNotFoundOfADeletedObjectButNotOfAClaim(t *testing.T) {
	now, s := metav1.Now(), newServer(t)
	for _, deleting := range []*metav1.Time{&now, nil} {
		claim, pool := gen.Claim("c"), gen.Pool("p")
		claim.DeletionTimestamp, pool.DeletionTimestamp = deleting, deleting
		claimBefore, poolBefore := patch.Snapshot(claim), patch.Snapshot(pool)
		claim.Status.Phase, pool.Status.Phase = ipamv1alpha1.ClaimReleasing, ipamv1alpha1.PoolReady
		if err := claimBefore.Patch(t.Context(), s, claim); !apierrors.IsNotFound(err) {
			t.Errorf("of a claim, deleted at %v: Patch = %v, want NotFound", deleting, err)
		}
		if err := poolBefore.Patch(t.Context(), s, pool); (deleting != nil) != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("of a pool, deleted at %v: Patch = %v, want NotFound unless it was deleted", deleting, err)
		}
	}
}

// The status of a claim is written in v1controller1. If a server does not know that version, it is written in v1alpha1.
func TestPatch_WritesAClaimInTheServedVersion(t *testing.T) {
	noMatch := &meta.NoKindMatchError{GroupKind: ipamv1alpha1.GroupVersion.WithKind("IPClaim").GroupKind()}
	for _, tt := range []struct {
		name     string
		serves   []string
		unserved error
		writes   int
		want     ipamv1alpha1.ClaimPhase
	}{
		{"today's schema", []string{"v1controller1"}, notFound, 1, ipamv1alpha1.ClaimBound},
		{"both", []string{"v1controller1", "v1alpha1"}, notFound, 1, ipamv1alpha1.ClaimBound},
		{"the former schema", []string{"v1alpha1"}, notFound, 2, ipamv1alpha1.ClaimBound},
		{"the former schema by discovery", []string{"v1alpha1"}, noMatch, 2, ipamv1alpha1.ClaimBound},
		{"neither yet", nil, notFound, 2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, gen.Claim("c"))
			s.serves, s.unserved = tt.serves, tt.unserved
			err := s.change(t, func(c *ipamv1alpha1.IPClaim) { c.Status.Phase = ipamv1alpha1.ClaimBound })
			if (err == nil) != (tt.want != "") || s.status != tt.writes {
				t.Errorf("Patch() = %v after %d calls; want success %t after %d", err, s.status, tt.want != "", tt.writes)
			}
			got := gen.Claim("c")
			testbed.Read(t, s, got)
			if got.Status.Phase != tt.want {
				t.Errorf("the stored phase is %q, want %q", got.Status.Phase, tt.want)
			}
		})
	}
}
