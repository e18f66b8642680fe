package packed

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// A cache keeps the metadata that a controller reads or writes, and drops the rest that a user may write.
func TestStrip_KeepsWhatIsRead(t *testing.T) {
	t.Parallel()
	all := map[string]string{
		clusterAnnotation: "c", ipamv1alpha1.AnnotationUsage: "1=2", ipamv1alpha1.AnnotationAllowSweep: "t", ipamv1alpha1.AnnotationRetainedFrom: "n/u",
		clusterv1.PausedAnnotation: "", "note": "mine",
	}
	of := func(names ...string) map[string]string {
		some := map[string]string{clusterAnnotation: "c"}
		for _, name := range names {
			some[name] = all[name]
		}
		return some
	}
	labels, stays := map[string]string{"app": "web"}, []string{"example.com/stays"}
	for object, want := range map[client.Object]map[string]string{
		&ipamv1alpha1.IPClaim{}:      of(),
		&ipamv1alpha1.IPAllocation{}: of(ipamv1alpha1.AnnotationRetainedFrom),
		&ipamv1alpha1.IPPool{}:       of(ipamv1alpha1.AnnotationUsage, ipamv1alpha1.AnnotationAllowSweep, clusterv1.PausedAnnotation),
	} {
		annotations := maps.Clone(all)
		object.SetAnnotations(annotations)
		object.SetLabels(labels)
		object.SetFinalizers(stays)
		object.SetOwnerReferences([]metav1.OwnerReference{{Name: "o"}})
		strip(object)
		if got := object.GetAnnotations(); !maps.Equal(got, want) {
			t.Errorf("%T has the annotations %v, want %v", object, got, want)
		}
		if _, ok := annotations["note"]; !ok {
			t.Errorf("strip changed the map of annotations of a %T, which others may read", object)
		}
		_, pool := object.(*ipamv1alpha1.IPPool)
		if got := object.GetLabels(); (got != nil) != pool {
			t.Errorf("%T has the labels %v, want them on a pool alone", object, got)
		}
		if got := object.GetFinalizers(); !reflect.DeepEqual(got, stays) || object.GetOwnerReferences() != nil {
			t.Errorf("%T has the finalizers %v and the owners %v, want the finalizers alone", object, got, object.GetOwnerReferences())
		}
	}
}

// The size of a claim in a cache does not depend on the labels, annotations, owners and finalizers that its user wrote.
func TestTransform_DropsHugeMetadata(t *testing.T) {
	keepsSmall(t, 50, func(i int) client.Object {
		claim, _ := bound(i)
		for _, name := range []string{
			"note", ipamv1alpha1.AnnotationUsage, ipamv1alpha1.AnnotationAllowSweep, ipamv1alpha1.AnnotationRetainedFrom, clusterv1.PausedAnnotation,
		} {
			claim.Annotations[name] = strings.Repeat("x", 64<<10)
		}
		claim.Labels = map[string]string{}
		for k := range 5000 {
			claim.Labels[fmt.Sprintf("label-%d-%d", i, k)] = strings.Repeat("y", 60)
			claim.OwnerReferences = append(claim.OwnerReferences, metav1.OwnerReference{Name: fmt.Sprintf("owner-%d-%d", i, k)})
			claim.Finalizers = append(claim.Finalizers, fmt.Sprintf("example.com/%s-%d-%d", strings.Repeat("z", 40), i, k))
		}
		return claim
	})
}

// A cached pool has no annotation that is longer than those which controllers read.
func TestStrip_DropsLongAnnotations(t *testing.T) {
	t.Parallel()
	pool := &ipamv1alpha1.IPPool{}
	pool.Annotations = map[string]string{
		ipamv1alpha1.AnnotationUsage: strings.Repeat("x", longest), ipamv1alpha1.AnnotationAllowSweep: strings.Repeat("x", longest+1),
	}
	strip(pool)
	if got := slices.Collect(maps.Keys(pool.Annotations)); !slices.Equal(got, []string{ipamv1alpha1.AnnotationUsage}) {
		t.Errorf("the pool has the annotations %v, want %s alone", got, ipamv1alpha1.AnnotationUsage)
	}
}

// An object can have more labels and finalizers than a policy admits, if its CREATE was stored past the policy. The
// cache has only this API's labels. It has one finalizer more than the policy admits, this API's included, so that a
// patch knows that there may be more.
func TestStrip_ShowsThatThereAreMoreFinalizers(t *testing.T) {
	t.Parallel()
	pool := &ipamv1alpha1.IPPool{}
	pool.Labels = map[string]string{ipamv1alpha1.LabelSlice: "uid"}
	for i := range ipamv1alpha1.MaxLabels {
		pool.Labels[fmt.Sprint("l", i)] = ""
	}
	for i := range 2 * ipamv1alpha1.MaxFinalizers {
		pool.Finalizers = append(pool.Finalizers, fmt.Sprint("example.com/", i))
	}
	pool.Finalizers = append(pool.Finalizers, ipamv1alpha1.FinalizerPool)
	strip(pool)
	if got := slices.Collect(maps.Keys(pool.Labels)); !slices.Equal(got, []string{ipamv1alpha1.LabelSlice}) {
		t.Errorf("the pool has the labels %v, want %s alone", got, ipamv1alpha1.LabelSlice)
	}
	if got := pool.Finalizers; len(got) != ipamv1alpha1.MaxFinalizers+1 || !slices.Contains(got, ipamv1alpha1.FinalizerPool) {
		t.Errorf("the pool has the finalizers %v, want %d with %s", got, ipamv1alpha1.MaxFinalizers+1, ipamv1alpha1.FinalizerPool)
	}
}

// A pool is not packed. Its size in the cache does not depend on the number of its labels and annotations either: a map
// would keep its size when entries are deleted.
func TestTransform_DropsManyNamesOfAPool(t *testing.T) {
	keepsSmall(t, 20, func(int) client.Object {
		pool := &ipamv1alpha1.IPPool{}
		pool.Annotations, pool.Labels = map[string]string{clusterAnnotation: "c"}, map[string]string{ipamv1alpha1.LabelSlice: "uid"}
		for k := range 20_000 {
			pool.Annotations[fmt.Sprint("a", k)] = ""
			pool.Labels[fmt.Sprint("l", k)] = ""
			pool.Finalizers = append(pool.Finalizers, fmt.Sprint("example.com/", k))
		}
		return pool
	})
}

// keepsSmall transforms objects, and expects each to take only a few kilobytes of a cache. It returns the first one.
func keepsSmall(t *testing.T, objects int, object func(i int) client.Object) (first client.Object) {
	t.Helper()
	const most = 16 << 10
	p, kept := &Packer{}, make([]any, objects)
	before := heap()
	for i := range kept {
		kept[i] = must.Get(p.Transform(object(i)))(t)
	}
	if got := int64(heap()-before) / int64(objects); got > most {
		t.Errorf("an object takes %d bytes in the cache, want %d at most", got, most)
	}
	first = kept[0].(client.Object)
	runtime.KeepAlive(kept)
	return first
}

// heap returns the size of the heap in use.
func heap() uint64 {
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A workspace writes as many permission claims into its binding as it likes. The cache keeps only whether events are
// accepted.
func TestTransform_DropsHugePermissionClaims(t *testing.T) {
	first := keepsSmall(t, 20, func(i int) client.Object {
		binding := &apisv1alpha2.APIBinding{}
		binding.Name, binding.Annotations = fmt.Sprint("b", i), map[string]string{clusterAnnotation: "c"}
		for k := range 5000 {
			claim := apisv1alpha2.AcceptablePermissionClaim{State: apisv1alpha2.ClaimAccepted}
			claim.Resource = fmt.Sprintf("r-%d-%d", i, k)
			claim.Selector.MatchLabels = map[string]string{fmt.Sprint("l", k): strings.Repeat("v", 60)}
			binding.Spec.PermissionClaims = append(binding.Spec.PermissionClaims, claim)
		}
		binding.Spec.PermissionClaims[7].Resource = "events"
		return binding
	})
	claims := Whole(first).(*apisv1alpha2.APIBinding).Spec.PermissionClaims
	if len(claims) != 1 || claims[0].Resource != "events" || claims[0].State != apisv1alpha2.ClaimAccepted {
		t.Errorf("the binding has %d permission claims, want events, accepted, alone", len(claims))
	}
}

// A tenant can change a claim with a long selector as often as it likes, and each generation has a shape of its own.
// The size of all remembered shapes is bounded, and not only their number.
func TestTransform_BoundsTheShapesOfManyGenerations(t *testing.T) {
	t.Parallel()
	p, remembered := &Packer{}, 0
	claim, _ := bound(1)
	values := make([]string, 64)
	for i := range values {
		values[i] = strings.Repeat("v", 63)
	}
	claim.Spec.PoolSelector = &ipamv1alpha1.PoolSelector{MatchExpressions: make([]ipamv1alpha1.LabelRequirement, 64)}
	for i := range claim.Spec.PoolSelector.MatchExpressions {
		claim.Spec.PoolSelector.MatchExpressions[i] = ipamv1alpha1.LabelRequirement{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: values}
	}
	for range 200 {
		claim.Generation++
		must.Get(p.Transform(claim.DeepCopy()))(t)
	}
	for _, shape := range p.claims.byKey {
		remembered += len(must.Get(json.Marshal(shape))(t))
	}
	if remembered > rememberedBytes {
		t.Errorf("the shapes that are remembered of one claim have %d bytes, want %d at most", remembered, rememberedBytes)
	}
	if usual, _ := bound(2); !isPacked(packs(t, p, usual)) {
		t.Error("a claim is not packed after that")
	}
}
