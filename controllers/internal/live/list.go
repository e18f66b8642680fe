package live

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
)

// page is how many objects are read at a time.
const page = 500

// Each calls visit for every object of a kind: those of the platform, and those
// of every workspace that binds the export. list says of which kind, and stays as it
// is; a page at a time is in memory. An endpoint that cannot be
// read is an error: what was told until then is not all.
func (r *Reader) Each(ctx context.Context, list client.ObjectList, visit func(allocator.ClusterName, client.Object)) error {
	err := r.each(ctx, r.cfg.Host, "", list, func(object client.Object) { visit(r.platform, object) })
	if err != nil {
		return err
	}
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, endpoint := range endpoints {
		err := r.each(ctx, endpoint, "*", list, func(object client.Object) {
			visit(allocator.ClusterName(logicalcluster.From(object)), object)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each reads a list at one server, to its end.
func (r *Reader) each(ctx context.Context, host, cluster string, list client.ObjectList, visit func(client.Object)) error {
	c, err := r.at(host, cluster)
	if err != nil {
		return err
	}
	for next := ""; ; {
		// Read into again, a list keeps what the next page leaves out: a field of the
		// object that was at this place before, or the end of the last page but one.
		read := list.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, read, client.Limit(page), client.Continue(next)); err != nil {
			return fmt.Errorf("list %T at %s: %w", list, host, err)
		}
		err := meta.EachListItem(read, func(object runtime.Object) error {
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
