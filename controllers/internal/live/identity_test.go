package live

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const exportPath = "/apis/apis.kcp.io/v1alpha2/apiexports/ipam.miloapis.com"

var noPools = map[string]any{"apiVersion": ipamv1alpha1.GroupVersion.String(), "kind": "IPPoolList", "items": []any{}}

// identify makes the site serve the export with an identity.
func (s *site) identify(hash string) {
	export := &apisv1alpha2.APIExport{TypeMeta: metav1.TypeMeta{APIVersion: "apis.kcp.io/v1alpha2", Kind: "APIExport"}}
	export.Name, export.Status.IdentityHash = ipamv1alpha1.GroupName, hash
	s.serve(exportPath, export)
}

// knows makes the reader compare the export's identity with this one.
func (r *Reader) knows(hash string) {
	r.opts.Identity = func(context.Context, string) (string, error) { return hash, nil }
}

// An export that was made again without its identity shows no claim that was there before. That does not prove that a
// claim or a workspace is gone, and no list counts as complete. Once the export has had its identity again for a while,
// all is as before.
func TestReplaced_ProvesNoAbsence(t *testing.T) {
	here := newSite(t)
	platform, reader := newWorld(t, here)
	reader.knows("first")
	platform.identify("first")
	check := func(state string, gone Verdict, whole bool) {
		t.Helper()
		here.holds("uid-of-c")
		asks(t, reader, Alive)
		here.lacks()
		if answer, err := reader.Holder(t.Context(), theClaim); answer.Verdict != gone || (err == nil) != whole {
			t.Errorf("%s: the verdict on a claim that is not there is %d, %v; want %d", state, answer.Verdict, err, gone)
		}
		if _, ok, err := reader.Census(t.Context()); ok != whole || err != nil {
			t.Errorf("%s: Census = %t, %v; want %t", state, ok, err, whole)
		}
		if err := reader.Each(t.Context(), &ipamv1alpha1.IPPoolList{}, ignore); (err == nil) != whole {
			t.Errorf("%s: Each = %v; want that to succeed: %t", state, err, whole)
		}
		if err := reader.Valid(t.Context()); (err == nil) != whole || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Valid = %v; want that to succeed: %t", state, err, whole)
		}
	}
	here.bind("9", "w")
	platform.serve(poolsPath, noPools)
	here.serve("/clusters/*"+poolsPath, noPools)
	check("with its identity", Gone, true)
	platform.identify("second")
	check("with another one", Unknown, false)
	if why, err := reader.Replaced(t.Context()); err != nil || !strings.Contains(why, "--accept-identity second") {
		t.Errorf("Replaced = %q, %v; want it to say what to do", why, err)
	}
	platform.identify("")
	check("without one", Unknown, false)
	platform.identify("first")
	check("with its identity again", Unknown, false)
	reader.replaced = time.Now().Add(-settled)
	check("with its identity since a while", Gone, true)
}

// While the identity is not known, nothing is found to be gone.
func TestReplaced_ProvesNoAbsenceWhileTheIdentityIsUnknown(t *testing.T) {
	here := newSite(t)
	platform, reader := newWorld(t, here)
	here.bind("9", "w")
	here.lacks()
	reader.knows("first")
	if answer, err := reader.Holder(t.Context(), theClaim); answer.Verdict != Unknown || err == nil {
		t.Errorf("without the export: verdict = %d, %v; want %d and an error", answer.Verdict, err, Unknown)
	}
	platform.identify("first")
	asks(t, reader, Gone)
	reader.opts.Identity = func(context.Context, string) (string, error) { return "", errors.New("etcd is away") }
	if answer, err := reader.Holder(t.Context(), theClaim); answer.Verdict != Unknown || err == nil {
		t.Errorf("without the ledger: verdict = %d, %v; want %d and an error", answer.Verdict, err, Unknown)
	}
	if _, ok, err := reader.Census(t.Context()); ok || err == nil {
		t.Errorf("without the ledger: Census = %t, %v; want an error", ok, err)
	}
}
