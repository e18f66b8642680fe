package transfer

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// exported writes pools and claims as export does, and reads them as import does.
func exported(t *testing.T, pools []ipamv1alpha1.IPPool, claims []ipamv1alpha1.IPClaim) *plan.Plan {
	t.Helper()
	p, left := plan.Of(pools, claims)
	if len(left) > 0 {
		t.Fatalf("the export leaves out %q", left)
	}
	var manifests bytes.Buffer
	for _, object := range p.Objects() {
		manifests.WriteString("---\n")
		manifests.Write(must.Get(yaml.Marshal(object))(t))
	}
	read, wrong := plan.ReadYAML(manifests.Bytes(), plan.Options{})
	if len(wrong) > 0 {
		t.Fatalf("reading the export has the problems %v, of\n%s", wrong, manifests.String())
	}
	return read
}

// set sets the fields of a spec one after another, each to a value that a user could write, and calls check. It fails
// for a field without such a value. It skips a field whose value is nil.
func set(t *testing.T, spec any, values map[string]any, check func(field string)) {
	t.Helper()
	fields := reflect.ValueOf(spec).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		value, ok := values[name]
		if !ok {
			t.Errorf("no value is known for the field %s", name)
		}
		if value == nil {
			continue
		}
		before := reflect.New(fields.Type()).Elem()
		before.Set(fields)
		fields.Field(i).Set(reflect.ValueOf(value))
		check(name)
		fields.Set(before)
	}
}

// If an export is imported into the same workspace, it changes no claim there, whatever a claim has asked for.
func TestImport_ChangesNoClaimOfItsOwnExport(t *testing.T) {
	t.Parallel()
	there := stage.Bound(gen.Claim("web"), "10.0.0.7/32", ipamv1alpha1.PoolRef{Name: "p"})
	there.Status.ClassName = "internal"
	set(t, &there.Spec, map[string]any{
		"ClassName": "internal", "PoolRef": &ipamv1alpha1.PoolRef{Name: "p"}, "PoolSelector": gen.Claim("", gen.Selecting("site", "fra")).Spec.PoolSelector,
		"IPFamily": ipamv1alpha1.IPv4, "PrefixLength": int32(32), "Address": "10.0.0.7", "Number": new(int64(7)), "Scope": ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}},
		"Target": ipamv1alpha1.TargetBlock, "ReclaimPolicy": ipamv1alpha1.ReclaimRetain, "UnmetPolicy": ipamv1alpha1.UnmetRefuse,
		"RetainedPolicy": ipamv1alpha1.RetainedReuse, "OwnerRef": &ipamv1alpha1.OwnerRef{Kind: "Node", Name: "n", UID: "u"},
	}, func(field string) {
		claim := there.DeepCopy()
		if claim.Spec.PoolRef != nil || claim.Spec.PoolSelector != nil {
			claim.Status.ClassName = ""
		}
		p := exported(t, nil, []ipamv1alpha1.IPClaim{*claim})
		if got := differentClaim(p.Claims[0].IPClaim, claim); got != "" {
			t.Errorf("a claim with spec.%s, exported and imported again: %s", field, got)
		}
	})
}

// If an export is imported into the same workspace, it changes no pool there.
func TestImport_ChangesNoPoolOfItsOwnExport(t *testing.T) {
	t.Parallel()
	there := stage.Ready(gen.Pool("p", gen.CIDR("10.0.0.0/16")), "10.0.0.0/16", ipamv1alpha1.IPv4, 0, 16)
	set(t, &there.Spec, map[string]any{
		"CIDR": ipamv1alpha1.CIDR("10.0.0.0/16"), "IPFamily": ipamv1alpha1.IPv4, "ParentPoolRef": nil, "ParentClassName": nil, "Address": nil, "PrefixLength": nil, "ClassRef": nil, // of pools that are carved
		"Scope": ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}, "Slices": &ipamv1alpha1.PoolSlices{PrefixLength: 24, MaxSlices: 3}, "AddressDomain": "d",
		"Allocation": ipamv1alpha1.PoolAllocation{MinPrefixLength: 20, MaxPrefixLength: 32, Strategy: ipamv1alpha1.BestFit}, "ClassNames": []string{"b", "a"},
		"MaxPerConsumer": ipamv1alpha1.AddressCount("256"), "Visibility": ipamv1alpha1.VisibilityShared, "Consumers": []ipamv1alpha1.Consumer{"root:b", "root:a:*"},
		"Reservations":  &ipamv1alpha1.PoolReservations{Leading: 1, Trailing: 2, UnitPrefixLength: 24},
		"ExcludedCIDRs": []ipamv1alpha1.CIDR{"10.0.9.0/24", "10.0.8.0/24"}, "Gateway": "10.0.0.1", "NetworkPrefixLength": int32(8),
		"ReleaseCooldown": ipamv1alpha1.Duration("30s"), "MaxRetentionLease": ipamv1alpha1.Duration("720h"),
	}, func(field string) {
		p := exported(t, []ipamv1alpha1.IPPool{*there}, nil)
		if got, err := differentPool(p.Pools[0].IPPool, there); got != "" || err != nil {
			t.Errorf("a pool with spec.%s, exported and imported again: %s, %v", field, got, err)
		}
	})
}

// Pools inside pools come back with their blocks, from a table, too. A plan has no pool that waits, and none that the
// system makes.
func TestImport_RestoresNestedPools(t *testing.T) {
	t.Parallel()
	pool := func(name, block string, option gen.PoolOption) ipamv1alpha1.IPPool {
		return *stage.Ready(gen.Pool(name, option), block, ipamv1alpha1.IPv4, 0, 28)
	}
	pools := []ipamv1alpha1.IPPool{
		pool("root", "10.0.0.0/16", gen.CIDR("10.0.0.0/16")), pool("a", "10.0.4.0/24", gen.ChildOf("root", 24)),
		pool("b", "10.0.4.128/25", gen.ChildAt("a", "10.0.4.128/25")), pool("ours", "192.0.2.0/24", gen.CarvedBy("internal", 0)),
		pool("inside", "192.0.2.0/28", gen.ChildOf("ours", 28)),
	}
	claim := stage.Bound(gen.Claim("web", gen.FromPool("b")), "10.0.4.129/32", ipamv1alpha1.PoolRef{Name: "b"})
	claim.Status.ClassName = ""
	written, left := plan.Of(pools, []ipamv1alpha1.IPClaim{*claim})
	if len(left) > 0 {
		t.Fatalf("the export leaves out %q", left)
	}
	var table bytes.Buffer
	if left, err := plan.WriteCSV(&table, written); err != nil || len(left) > 0 {
		t.Fatalf("the table leaves out %q, %v", left, err)
	}
	fromTable, wrong := plan.ReadCSV(table.Bytes(), plan.Options{})
	if len(wrong) > 0 {
		t.Fatalf("the table has the problems %v:\n%s", wrong, table.String())
	}
	for _, p := range []*plan.Plan{exported(t, pools, []ipamv1alpha1.IPClaim{*claim}), fromTable} {
		if problems := p.Check(); len(problems) > 0 || len(p.Pools) != len(pools) || len(p.Claims) != 1 {
			t.Fatalf("the plan has %d pools, %d claims, and the problems %v", len(p.Pools), len(p.Claims), problems)
		}
		for _, read := range p.Pools {
			there := &pools[slices.IndexFunc(pools, func(p ipamv1alpha1.IPPool) bool { return p.Name == read.Name })]
			if got, err := differentPool(read.IPPool, there); got != "" || err != nil {
				t.Errorf("pool %s, exported and imported again: %s, %v", read.Name, got, err)
			}
		}
		order := names(parentsFirst(stepsOf(p)))
		if want := []string{"root", "a", "ours", "b", "inside", "web"}; !slices.Equal(order, want) {
			t.Errorf("the import creates %v; want %v", order, want)
		}
	}
	waits, slice := gen.Pool("waits", gen.CarvedBy("internal", 0)), pool("slice", "10.9.0.0/24", gen.ChildOf("edge", 24))
	slice.Labels = map[string]string{ipamv1alpha1.LabelSlice: "uid"}
	if p, left := plan.Of([]ipamv1alpha1.IPPool{*waits, slice}, nil); len(p.Pools) > 0 || len(left) != 2 {
		t.Errorf("the export has %d pools, and leaves out %q", len(p.Pools), left)
	}
}

func names(steps []*step) (names []string) {
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return names
}

// If a claim or a pool of the plan is being deleted, the plan is refused: soon the object would be missing.
func TestImport_RefusesWhileAnObjectIsDeleted(t *testing.T) {
	t.Parallel()
	claim := stage.Bound(gen.Claim("web", gen.FromPool("p")), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
	pool := stage.Ready(gen.Pool("p", gen.CIDR("10.0.0.0/16")), "10.0.0.0/16", ipamv1alpha1.IPv4, 0, 16)
	claim.DeletionTimestamp, pool.DeletionTimestamp = new(metav1.NewTime(stage.Noon)), new(metav1.NewTime(stage.Noon))
	said := differentClaim(gen.Claim("web", gen.FromPool("p"), gen.Address("10.0.0.0/28")), claim)
	if want := "claim default/web is being deleted: import the plan again when it is gone"; said != want {
		t.Errorf("beside a claim that is being deleted, the plan is told %q; want %q", said, want)
	}
	said, err := differentPool(gen.Pool("p", gen.CIDR("10.0.0.0/16")), pool)
	if want := "pool p is being deleted: import the plan again when it is gone"; said != want || err != nil {
		t.Errorf("beside a pool that is being deleted, the plan is told %q, %v; want %q", said, err, want)
	}
}

// In a cluster without kcp, a user of one namespace may not read pools, but can import claims.
func TestImport_ClaimsWithoutTheRightToReadPools(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(stage.Server(t, interceptor.Funcs{}), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*ipamv1alpha1.IPPoolList); ok {
				return apierrors.NewForbidden(ipamv1alpha1.Resource("ippools"), "", errors.New("no"))
			}
			return c.List(ctx, list, options...)
		},
	})
	claim := &step{Line: 2, Kind: "claim", Namespace: "default", object: gen.Claim("web", gen.OfClass("internal"), gen.Address("10.0.0.7"))}
	if err := compare(t.Context(), c, []*step{claim}, &faults{}); err != nil || claim.State != stateNew {
		t.Errorf("compare with the claims that are there: %v; the claim is %q, want %q", err, claim.State, stateNew)
	}
	pool := &step{Line: 3, Kind: "pool", object: gen.Pool("p", gen.CIDR("10.0.0.0/16"))}
	err := compare(t.Context(), c, []*step{claim, pool}, &faults{})
	if exit.CodeOf(err) != exit.Forbidden || !strings.Contains(err.Error(), "ippools") {
		t.Errorf("with a pool in the plan, compare returns %v; want that pools cannot be read", err)
	}
}
