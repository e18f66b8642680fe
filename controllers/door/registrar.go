package door

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// registrar writes the objects that tell the API server about the door, and corrects those that differ. A manager runs
// it on the leader.
type registrar struct {
	client client.Client
	clock  clock.WithTicker
	// ready is closed when wanted can be called.
	ready  <-chan struct{}
	wanted func() (registration, error)
}

// NeedLeaderElection returns true: only the leader registers.
func (r *registrar) NeedLeaderElection() bool { return true }

// Start registers the door until the context ends.
func (r *registrar) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.ready:
	}
	repeat(ctx, r.clock, func() error { return r.register(ctx) }, "the webhooks are not registered")
	return nil
}

func (r *registrar) register(ctx context.Context) error {
	want, err := r.wanted()
	if err != nil {
		return err
	}
	for _, configuration := range want.all() {
		if err := r.ensure(ctx, configuration); err != nil {
			return err
		}
	}
	return nil
}

// ensure writes a configuration if the stored one is missing or has other webhooks, and a ConfigMap if the stored one
// is missing or has other data.
func (r *registrar) ensure(ctx context.Context, configuration client.Object) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
	if err != nil {
		return err
	}
	want := &unstructured.Unstructured{Object: object}
	content := "webhooks"
	if want.GetKind() == "ConfigMap" {
		content = "data"
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err = r.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		// It is applied, and not created, because the right to apply can be limited to this name.
		err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), fieldOwner, client.ForceOwnership)
	case err != nil:
	case equality.Semantic.DeepEqual(have.Object[content], want.Object[content]):
		return nil
	default:
		// Apply would leave webhooks that somebody has added.
		base := client.MergeFromWithOptions(have.DeepCopy(), client.MergeFromWithOptimisticLock{})
		have.Object[content] = want.Object[content]
		err = r.client.Patch(ctx, have, base, fieldOwner)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", want.GetKind(), want.GetName(), err)
	}
	log.FromContext(ctx).Info("the webhooks are registered", "kind", want.GetKind(), "name", want.GetName())
	return nil
}

// remover deletes what a former door has registered, if there is no door any more. Otherwise the API server would still
// call that door for each CREATE. A manager runs it on the leader.
type remover struct {
	client    client.Client
	clock     clock.WithTicker
	namespace string
}

// NeedLeaderElection returns true: only the leader removes.
func (r *remover) NeedLeaderElection() bool { return true }

// Start removes the registration.
func (r *remover) Start(ctx context.Context) error {
	ctx, removed := context.WithCancel(ctx)
	defer removed()
	repeat(ctx, r.clock, func() error {
		err := r.remove(ctx)
		if err == nil {
			removed()
		}
		return err
	}, "the webhooks are still registered")
	return nil
}

func (r *remover) remove(ctx context.Context) error {
	for _, configuration := range (registration{namespace: r.namespace, serves: true}).all() {
		err := r.client.Delete(ctx, configuration)
		if err == nil {
			log.FromContext(ctx).Info("the webhooks are not registered any more", "name", configuration.GetName())
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
