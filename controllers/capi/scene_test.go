package capi

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// inPlace are the Names by which IPClaims are in the same cluster and namespace as their IPAddressClaims.
var inPlace Names

// scene is a reconciler whose cache lacks the objects that a test hides. The server is a fake, because the cache of a
// real one does not lag when a test wants it to. No claim controller runs: the test writes the answers to IPClaims.
type scene struct {
	*Reconciler
	*testing.T
	hidden map[client.Object]bool
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	scheme := testbed.Scheme(t, corev1.AddToScheme, capiv1.AddToScheme, clusterv1.AddToScheme)
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&capiv1.IPAddressClaim{}).Build()
	s := &scene{T: t, hidden: map[client.Object]bool{}}
	cached := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if s.hides(key, object) {
				return apierrors.NewNotFound(capiv1.GroupVersion.WithResource("hidden").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if claims, ok := list.(*ipamv1alpha1.IPClaimList); ok {
				claims.Items = slices.DeleteFunc(claims.Items, func(claim ipamv1alpha1.IPClaim) bool {
					return s.hides(client.ObjectKeyFromObject(&claim), &claim)
				})
			}
			return err
		},
	})
	both := Server{cached, server}
	s.Reconciler = &Reconciler{Management: Management{Server: both}, Claims: Claims{Server: both}}
	return s
}

// forbid makes the server refuse IPClaims of a namespace, as a quota does.
func (s *scene) forbid(namespace string) {
	s.Claims.Client = interceptor.NewClient(s.Claims.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if object.GetNamespace() == namespace {
				return apierrors.NewForbidden(ipamv1alpha1.Resource("ipclaims"), object.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, object, opts...)
		},
	})
}

// hides reports whether the cache lacks an object.
func (s *scene) hides(key client.ObjectKey, object client.Object) bool {
	for hidden := range s.hidden {
		if client.ObjectKeyFromObject(hidden) == key && reflect.TypeOf(hidden) == reflect.TypeOf(object) {
			return true
		}
	}
	return false
}

// reconcile reconciles a claim.
func (s *scene) reconcile(claim *capiv1.IPAddressClaim) reconcile.Result {
	s.Helper()
	return must.Get(s.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}))(s)
}

// has reports whether the server has an object, and reads it.
func (s *scene) has(object client.Object) bool {
	s.Helper()
	err := s.Management.Live.Get(s.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return err == nil
}

// wants expects objects to be on the server, and none of them to be deleted.
func (s *scene) wants(when string, objects ...client.Object) {
	s.Helper()
	for _, object := range objects {
		if there := s.has(object); !there || object.GetDeletionTimestamp() != nil {
			s.Fatalf("%s: %T %s is there: %t, deleted at %v; want it there", when, object, object.GetName(), there, object.GetDeletionTimestamp())
		}
	}
}

// lacks expects objects not to be on the server any more.
func (s *scene) lacks(when string, objects ...client.Object) {
	s.Helper()
	for _, object := range objects {
		if s.has(object) {
			s.Fatalf("%s: %T %s is there; want it gone", when, object, object.GetName())
		}
	}
}

// reads makes the server of the management cluster answer each Get by this function, which may call read for the real
// answer.
func (s *scene) reads(get func(read func() error, key client.ObjectKey, object client.Object) error) {
	server := s.Management.Live
	s.Management.Live = interceptor.NewClient(s.Management.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			return get(func() error { return server.Get(ctx, key, object, opts...) }, key, object)
		},
	})
}

// ready returns the condition Ready that a claim has on the server.
func (s *scene) ready(claim *capiv1.IPAddressClaim) metav1.Condition {
	s.Helper()
	if !s.has(claim) {
		s.Fatalf("IPAddressClaim %s is gone", claim.Name)
	}
	condition := meta.FindStatusCondition(claim.Status.Conditions, capiv1.IPAddressClaimReadyCondition)
	if condition == nil {
		s.Fatalf("IPAddressClaim %s has no condition Ready", claim.Name)
	}
	return *condition
}

// machine returns an IPAddressClaim that has the finalizer already.
func machine(name string) *capiv1.IPAddressClaim {
	return &capiv1.IPAddressClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{Finalizer}},
		Spec:       capiv1.IPAddressClaimSpec{PoolRef: capiv1.IPPoolReference{APIGroup: ipamv1alpha1.GroupName, Kind: kindPool, Name: "lab"}},
	}
}

// elsewhere returns a claim of another namespace.
func elsewhere(name string) *capiv1.IPAddressClaim {
	claim := machine(name)
	claim.Namespace = "elsewhere"
	return claim
}

// served returns a claim with its IPAddress and its IPClaim.
func served() (claim *capiv1.IPAddressClaim, address *capiv1.IPAddress, held *ipamv1alpha1.IPClaim) {
	claim = machine("web")
	return claim, published(claim, "192.0.2.7"), bound(claim, "192.0.2.7")
}

// published returns the IPAddress of a claim.
func published(claim *capiv1.IPAddressClaim, address string) *capiv1.IPAddress {
	return &capiv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, Finalizers: []string{FinalizerAddress}},
		Spec: capiv1.IPAddressSpec{
			ClaimRef: capiv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef,
			Address: address, Prefix: new(int32(24)),
		},
	}
}

// bound returns the IPClaim of an IPAddressClaim, bound to an address.
func bound(claim *capiv1.IPAddressClaim, address string) *ipamv1alpha1.IPClaim {
	made := inPlace.newClaim(claim)
	made.CreationTimestamp = metav1.Now()
	made.Status.Address, made.Status.AllocatedCIDR = address, address+"/32"
	made.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: claim.Spec.PoolRef.Name}
	return made
}

// lab returns the pool that all claims name.
func lab() *ipamv1alpha1.IPPool {
	pool := gen.Pool("lab", gen.CIDR("192.0.2.0/24"))
	pool.Status.AllocatedCIDR, pool.Status.IPFamily = "192.0.2.0/24", ipamv1alpha1.IPv4
	return pool
}
