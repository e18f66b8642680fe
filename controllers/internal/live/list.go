package live

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// page is how many objects a page of bindings has, and the first page of any other list. Later pages of other lists are
// made longer or shorter, within bounds, until they have pageBytes: tenants may write objects of more than a MiB, and
// usual objects have two KiB.
const (
	page      = 50
	longest   = 500
	shortest  = 5
	pageBytes = 4 << 20
)

// Each calls visit for every object of a kind, on the platform and in every workspace that binds the export. list names
// the kind, and is not changed. One page at a time is in memory. An object that cannot be read whole is visited with
// its readable fields, marked: see package decode. If an endpoint cannot be read, Each fails, and not all objects were
// visited.
func (r *Reader) Each(
	ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object),
) error {
	err := r.each(ctx, r.opts.Config.Host, "", list, func(object client.Object) { visit(r.opts.Platform, object) })
	if err != nil {
		return err
	}
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, endpoint := range endpoints {
		err := r.each(ctx, endpoint, "*", list, func(object client.Object) {
			visit(ledger.ClusterName(logicalcluster.From(object)), object)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each reads all pages of a list at one server.
func (r *Reader) each(
	ctx context.Context, host, cluster string, list client.ObjectList, visit func(client.Object),
) error {
	gvk, err := apiutil.GVKForObject(list, r.opts.Scheme)
	if err != nil {
		return err
	}
	kind, plural, err := r.lister(host, cluster, gvk)
	if err != nil {
		return err
	}
	params := runtime.NewParameterCodec(r.opts.Scheme)
	limit := page
	for next := ""; ; {
		// A list that is read into again keeps what the next page leaves out: fields of the object that was at the same place
		// in the page before, or the continue token, after the last page.
		read := list.DeepCopyObject().(client.ObjectList)
		options := &metav1.ListOptions{Limit: int64(limit), Continue: next}
		result := kind.Get().Resource(plural).VersionedParams(options, params).Do(ctx)
		err := result.Error()
		if err == nil {
			raw, _ := result.Raw() // the error is that of the result
			err = decode.List(raw, read)
			limit = min(longest, max(shortest, meta.LenList(read)*pageBytes/max(1, len(raw))))
		}
		if got := read.GetObjectKind().GroupVersionKind(); err == nil && got != gvk {
			err = fmt.Errorf("the server has sent a %q, want %s", got.Kind, gvk.Kind) // which would look like an empty list
		}
		if err != nil {
			return fmt.Errorf("list %T at %s: %w", list, host, err)
		}
		err = meta.EachListItem(read, func(object runtime.Object) error {
			visit(object.(client.Object))
			return nil
		})
		if err != nil {
			return err
		}
		if next = read.GetContinue(); next == "" {
			return nil
		}
	}
}

// lister returns a client that reads the lists of a kind at a server. A client.Client would decode them as client-go
// does, which takes a minute of processor time for a million objects.
func (r *Reader) lister(
	host, cluster string, list schema.GroupVersionKind,
) (kind rest.Interface, plural string, err error) {
	gvk := list.GroupVersion().WithKind(strings.TrimSuffix(list.Kind, "List"))
	mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, "", err
	}
	kind, err = apiutil.RESTClientForGVK(gvk, false, false, r.config(host, cluster),
		serializer.NewCodecFactory(r.opts.Scheme), r.http)
	return kind, mapping.Resource.Resource, err
}
