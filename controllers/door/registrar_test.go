package door

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/test/must"
)

var registered = registration{
	endpoint: Endpoint{URL: "https://ipam.example.org:9443"}, token: "secret", bundle: []byte("PEM"),
	controller: "system:serviceaccount:ipam-system:ipam-controller", platform: "p1", namespace: "ipam-system", serves: true,
}

// counting is a client that counts writes.
func counting(writes *int) client.Client {
	return interceptor.NewClient(newFake(), interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			*writes++
			return w.Patch(ctx, object, patch, opts...)
		},
		Apply: func(ctx context.Context, w client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			*writes++
			return w.Apply(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			*writes++
			return w.Delete(ctx, object, opts...)
		},
	})
}

func stored(t *testing.T, c client.Client) ([]admissionregistrationv1.MutatingWebhook, []admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	mutating, validating := registered.mutating(), registered.validating()
	for _, object := range []client.Object{mutating, validating} {
		must.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}
	return mutating.Webhooks, validating.Webhooks
}

// Each object of the registration is written at first, and again when the stored one differs.
func TestRegistrar_WritesOnlyWhatDiffers(t *testing.T) {
	writes := 0
	c := counting(&writes)
	want := registered
	r := &registrar{client: c, wanted: func() (registration, error) { return want, nil }}
	for _, step := range []struct {
		name   string
		change func()
		writes int
	}{
		{"nothing is there", func() {}, 3},
		{"nothing has changed", func() {}, 0},
		{"another bundle", func() { want.bundle = []byte("PEM PEM") }, 3},
		{"another token", func() { want.token = "other" }, 1},
		{"one is deleted", func() {
			must.Do(t, c.Delete(t.Context(), want.validating()))
		}, 1},
		{"somebody adds a webhook", func() {
			object := want.mutating()
			must.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			object.Webhooks = append(object.Webhooks, object.Webhooks[0])
			object.Webhooks[2].Name = "other.example.org"
			must.Do(t, c.Update(t.Context(), object))
		}, 1},
	} {
		step.change()
		writes = 0
		if err := r.register(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if writes != step.writes {
			t.Errorf("%s: %d writes, want %d", step.name, writes, step.writes)
		}
		mutating, validating := stored(t, c)
		if diff := cmp.Diff(want.mutating().Webhooks, mutating) + cmp.Diff(want.validating().Webhooks, validating); diff != "" {
			t.Errorf("%s: the registration differs (-want +got):\n%s", step.name, diff)
		}
	}
}

// Nothing is registered before the keys are there, or while the bundle cannot be read.
func TestRegistrar_WaitsForTheKeys(t *testing.T) {
	writes, ready := 0, make(chan struct{})
	r := &registrar{client: counting(&writes), clock: clocktesting.NewFakeClock(time.Now()), ready: ready, wanted: func() (registration, error) {
		t.Error("the registrar asks for keys that are not there")
		return registration{}, nil
	}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := r.Start(ctx); err != nil || writes != 0 {
		t.Errorf("Start = %v after %d writes, want nil and none", err, writes)
	}
	unreadable := errors.New("no such file")
	r.wanted = func() (registration, error) { return registration{}, unreadable }
	if err := r.register(t.Context()); !errors.Is(err, unreadable) || writes != 0 {
		t.Errorf("register = %v after %d writes, want %v and none", err, writes, unreadable)
	}
}

// A controller without a door deletes what a former door has registered. Start returns when that is done.
func TestRemover_DeletesTheRegistration(t *testing.T) {
	writes := 0
	c := counting(&writes)
	r := &registrar{client: c, wanted: func() (registration, error) { return registered, nil }}
	must.Do(t, r.register(t.Context()))
	writes = 0
	for range 2 {
		must.Do(t, (&remover{client: c, clock: clocktesting.NewFakeClock(time.Now()), namespace: "ipam-system"}).Start(t.Context()))
	}
	for _, object := range registered.all() {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("Get %T = %v, want it not to be found", object, err)
		}
	}
}

// People find the door by a ConfigMap, which has no token. If a door serves no people, there is no ConfigMap.
func TestRegistrar_TellsPeopleTheAddress(t *testing.T) {
	for endpoint, want := range map[Endpoint]string{
		{URL: "https://ipam.example.org:9443/door"}:                                    "https://ipam.example.org:9443/door",
		{Service: &Service{Namespace: "ipam-system", Name: "ipam-webhook", Port: 443}}: "https://ipam-webhook.ipam-system.svc:443",
	} {
		c, told := newFake(), registered
		told.endpoint = endpoint
		r := &registrar{client: c, wanted: func() (registration, error) { return told, nil }}
		must.Do(t, r.register(t.Context()))
		address := &corev1.ConfigMap{}
		must.Do(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ipam-system", Name: lookup.Address}, address))
		if diff := cmp.Diff(map[string]string{lookup.URL: want, lookup.CA: "PEM"}, address.Data); diff != "" {
			t.Errorf("people are told (-want +got):\n%s", diff)
		}
	}
	c, silent := newFake(), registered
	silent.serves = false
	must.Do(t, (&registrar{client: c, wanted: func() (registration, error) { return silent, nil }}).register(t.Context()))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ipam-system", Name: lookup.Address}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get of the ConfigMap = %v; want that there is none", err)
	}
}
