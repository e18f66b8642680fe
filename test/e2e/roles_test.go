package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// rights are the kinds that users with a role may read and write.
type rights struct{ reads, writes []string }

// place is the workspace in which they have these rights.
type place struct {
	class string   // the name of the class to read
	fixed []string // kinds that nobody makes or changes here: the only write is DELETE
}

const (
	classes     = "IPClass"
	pools       = "IPPool"
	claims      = "IPClaim"
	allocations = "IPAllocation"
)

var kinds = []string{classes, pools, claims, allocations}

// In a tenant's workspace, users of each role may do what the role says, and no more.
func TestRoles_BoundTheTenantsUsers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	framework.Eventually(t, "the class to be seen", func(ctx context.Context) error {
		return s.tenant.Get(ctx, client.ObjectKey{Name: s.name}, gen.Class(s.name))
	})
	// kcp answers the GET of a class that does not exist with a fault, not with NotFound.
	here := place{class: s.name, fixed: []string{allocations, classes}}
	for role, may := range map[string]rights{
		"ipam-viewer":     {reads: kinds},
		"ipam-consumer":   {reads: kinds, writes: []string{claims}},
		"ipam-pool-admin": {reads: kinds, writes: []string{claims, pools, allocations}},
		"view":            {reads: kinds},
		"edit":            {reads: kinds, writes: []string{claims}},
		"admin":           {reads: kinds, writes: []string{claims, pools, allocations}},
		"cluster-admin":   {reads: kinds, writes: []string{claims, pools, allocations}},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			may.check(t, s.tenant.User(t, role), here)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		rights{}.check(t, s.tenant.User(t), here)
	})
}

// On the platform, users of each role may do what the role says, and no more.
func TestRoles_BoundThePlatformsUsers(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	for role, may := range map[string]rights{
		"ipam-class-admin":       {reads: []string{classes, pools}, writes: []string{classes}},
		"ipam-shared-pool-admin": {reads: []string{classes, pools, allocations}, writes: []string{pools}},
		"ipam-tenant-viewer":     {reads: kinds},
		"admin":                  {reads: kinds, writes: []string{classes, pools}},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			may.check(t, platform.User(t, role), place{class: "nobody"})
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		rights{}.check(t, platform.User(t), place{class: "nobody"})
	})
}

// check fails the test unless a client has exactly these rights.
func (r rights) check(t *testing.T, c client.Client, in place) {
	t.Helper()
	if len(r.reads) > 0 { // roles that aggregate others do so a moment after they are made
		framework.Eventually(t, "the role to be known", func(ctx context.Context) error { return c.List(ctx, listOf(r.reads[0])) })
	}
	for _, kind := range kinds {
		reads, writes := slices.Contains(r.reads, kind), slices.Contains(r.writes, kind)
		read := nobody(kind)
		if kind == classes {
			read.SetName(in.class)
		}
		makes := writes && !slices.Contains(in.fixed, kind)
		for verb, try := range map[string]struct {
			err error
			may bool
		}{
			"list":            {c.List(t.Context(), listOf(kind)), reads},
			"get":             {c.Get(t.Context(), client.ObjectKeyFromObject(read), read), reads},
			"create":          {c.Create(t.Context(), sample(kind), client.DryRunAll), makes},
			"patch":           {c.Patch(t.Context(), nobody(kind), merge(`{"metadata": {"labels": {"a": "b"}}}`)), makes},
			"patch status of": {c.Status().Patch(t.Context(), nobody(kind), merge(`{"status": {}}`)), false},
			"delete":          {c.Delete(t.Context(), nobody(kind)), writes},
			"delete all of":   {c.DeleteAllOf(t.Context(), nobody(kind), client.InNamespace(nobody(kind).GetNamespace()), client.MatchingLabels{"no": "such"}), writes},
		} {
			if isAllowed(try.err) != try.may {
				t.Errorf("%s %s: %v; want it to be allowed: %t", verb, kind, try.err, try.may)
			}
		}
	}
}

// isAllowed reports whether the answer to a request shows that its author may make it: the object may be missing.
func isAllowed(err error) bool {
	return err == nil || apierrors.IsNotFound(err)
}

func listOf(kind string) client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind(kind + "List"))
	return list
}

// nobody returns an object that does not exist.
func nobody(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind(kind))
	object.SetName("nobody")
	if kind == claims || kind == allocations {
		object.SetNamespace("default")
	}
	return object
}

// sample returns an object that may be created.
func sample(kind string) client.Object {
	switch kind {
	case classes:
		return gen.Class("sample")
	case pools:
		return gen.Pool("sample")
	case claims:
		return gen.Claim("sample")
	case allocations:
		return gen.Allocation("sample", "pool", "10.0.0.0/28")
	default:
		panic(fmt.Sprintf("there is no kind %s", kind))
	}
}
