package record

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

var (
	claim = client.ObjectKey{Namespace: "default", Name: "c"}
	names = ipamv1alpha1.AllocationNames("default", "c")
)

// held returns a record of that name, held by a claim.
func held(name, claim string, uid types.UID) *ipamv1alpha1.IPAllocation {
	r := gen.Allocation("c", "p", "10.0.0.0/28")
	r.Name, r.Spec.ClaimRef = name, &ipamv1alpha1.ClaimRef{Name: claim, UID: uid}
	return r
}

// kept returns such a record that was retained from the claim.
func kept(name, claim string, uid types.UID) *ipamv1alpha1.IPAllocation {
	r := held(name, claim, uid)
	r.Spec.ClaimRef, r.Annotations = nil, map[string]string{ipamv1alpha1.AnnotationRetainedFrom: claim + "/" + string(uid)}
	return r
}

func newReader(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Reader {
	t.Helper()
	return testbed.NewClient(t).WithInterceptorFuncs(funcs).WithObjects(objects...).Build()
}

// shownBy returns a function that reads records through a reader.
func shownBy(t *testing.T, reader client.Reader) func(client.ObjectKey) (client.Object, error) {
	return func(key client.ObjectKey) (client.Object, error) {
		record, err := get(t.Context(), reader, key.Namespace, key.Name)
		if record == nil {
			return nil, err
		}
		return record, err
	}
}

func TestFind_ReturnsTheRecordThatNamesTheClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		records []client.Object
		slot    string
		found   bool
		exists  bool // a record of the claim with the UID 1
	}{
		"none":                                 {nil, names[0], false, false},
		"its own":                              {[]client.Object{held(names[0], "c", "1")}, names[0], true, true},
		"its own, retained":                    {[]client.Object{kept(names[0], "c", "1")}, names[0], true, true},
		"a former claim's":                     {[]client.Object{held(names[0], "c", "0")}, names[0], true, false},
		"another name's":                       {[]client.Object{held(names[0], "other", "9")}, names[1], false, false},
		"another name's, retained":             {[]client.Object{kept(names[0], "other", "9")}, names[1], false, false},
		"another name's, its own beside":       {[]client.Object{held(names[0], "other", "9"), held(names[1], "c", "1")}, names[1], true, true},
		"its own long, the other gone":         {[]client.Object{held(names[1], "c", "1")}, names[1], true, true},
		"a former claim's long, usual retaken": {[]client.Object{held(names[0], "c", "2"), kept(names[1], "c", "1")}, names[0], true, true},
	} {
		t.Run(name, func(t *testing.T) {
			reader := newReader(t, interceptor.Funcs{}, tt.records...)
			slot, err := Find(t.Context(), reader, claim)
			if err != nil || slot.Name != tt.slot || (slot.Record != nil) != tt.found {
				t.Errorf("Find() = %s with a record %t, %v; want %s, %t", slot.Name, slot.Record != nil, err, tt.slot, tt.found)
			}
			exists, err := Exists(shownBy(t, reader), claim, "1")
			if err != nil || exists != tt.exists {
				t.Errorf("Exists(1) = %t, %v; want %t", exists, err, tt.exists)
			}
		})
	}
}

// A record that cannot be read does not count as missing.
func TestFind_FailsIfARecordCannotBeRead(t *testing.T) {
	fault := errors.New("the cache is not synced")
	reader := newReader(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return fault
	}})
	must.Fail(Find(t.Context(), reader, claim))(t, fault)
	must.Fail(Exists(shownBy(t, reader), claim, "1"))(t, fault)
}
