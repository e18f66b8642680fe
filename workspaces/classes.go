package workspaces

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cachev1alpha1 "github.com/kcp-dev/sdk/apis/cache/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/config"
)

const classesResource = "ipclasses"

// publishClasses lets kcp cache the published classes, so that tenants see them read-only in their own workspaces. A
// kcp without the feature gate CacheAPIs serves this API too, but never acts on the object: so publishClasses waits
// for kcp to act. Claims by class work either way.
func (p *platform) publishClasses(ctx context.Context) error {
	objects, err := decode(config.CachedResource(), strings.NewReplacer())
	if err != nil {
		return err
	}
	if err := apply(ctx, p, objects...); err != nil {
		return err
	}
	cached := &cachev1alpha1.CachedResource{}
	if !p.publishes(ctx, cached) {
		p.Progress("this kcp does not publish classes (feature gate CacheAPIs is off): " +
			"tenants can use them, but not list them")
		return ctx.Err()
	}
	err = await(ctx, "the published classes to be ready", func(ctx context.Context) error {
		if err := p.Get(ctx, client.ObjectKey{Name: classesResource}, cached); err != nil {
			return err
		}
		if cached.Status.Phase != cachev1alpha1.CachedResourcePhaseReady || cached.Status.IdentityHash == "" {
			return fmt.Errorf("their phase is %q%s", cached.Status.Phase, unmet(cached.Status.Conditions))
		}
		return nil
	})
	p.classesIdentity = cached.Status.IdentityHash
	return err
}

// publishes reports whether kcp takes up the published classes before long.
func (p *platform) publishes(ctx context.Context, cached *cachev1alpha1.CachedResource) bool {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	err := await(ctx, "kcp to take up the published classes", func(ctx context.Context) error {
		if err := p.Get(ctx, client.ObjectKey{Name: classesResource}, cached); err != nil {
			return err
		}
		if len(cached.Status.Conditions) == 0 {
			return errors.New("nobody has acted on them")
		}
		return nil
	})
	return err == nil
}

// withoutClasses takes the classes out of the resources of an APIExport.
func withoutClasses(export *unstructured.Unstructured) error {
	resources, _, err := unstructured.NestedSlice(export.Object, "spec", "resources")
	if err != nil {
		return err
	}
	kept := make([]any, 0, len(resources))
	for _, resource := range resources {
		if fields, ok := resource.(map[string]any); !ok || fields["name"] != classesResource {
			kept = append(kept, resource)
		}
	}
	return unstructured.SetNestedSlice(export.Object, kept, "spec", "resources")
}
