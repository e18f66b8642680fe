package live

import (
	"context"
	"fmt"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settled is how long the export must have had the ledger's identity again before the export is believed. Until then, a
// shard may still serve the other identity.
const settled = time.Minute

// kcp stores tenants' objects by the identity of the export. An export that was made again without the secret of its
// identity shows none of the objects that were there: the bindings are in order, and each object seems to be gone.

// Replaced returns why the export does not show the objects whose blocks the ledger has; empty: it shows them. The
// answer comes from a read that began after the call.
func (r *Reader) Replaced(ctx context.Context) (why string, err error) {
	if r.opts.Slice == "" || r.opts.Identity == nil {
		return "", nil
	}
	return r.identity.get(ctx)
}

// shows returns an error unless the export shows the objects whose blocks the ledger has.
func (r *Reader) shows(ctx context.Context) error {
	why, err := r.Replaced(ctx)
	if err == nil && why != "" {
		err = fmt.Errorf("%w: %s", ErrInvalid, why)
	}
	return err
}

// export reads the platform's APIExport.
func (r *Reader) export(ctx context.Context) (*apisv1alpha2.APIExport, error) {
	c, err := r.at(r.opts.Config.Host, "")
	if err != nil {
		return nil, err
	}
	export := &apisv1alpha2.APIExport{}
	return export, c.Get(ctx, client.ObjectKey{Name: r.opts.Slice}, export) // it has the name of its slice
}

// readIdentity compares the identity of the export with that of the ledger. Only one call runs at a time.
func (r *Reader) readIdentity(ctx context.Context) (why string, err error) {
	export, err := r.export(ctx)
	if err != nil {
		return "", fmt.Errorf("read APIExport %s: %w", r.opts.Slice, err)
	}
	seen := export.Status.IdentityHash
	if seen == "" {
		return fmt.Sprintf("APIExport %s has no identity yet", r.opts.Slice), nil
	}
	known, err := r.opts.Identity(ctx, seen)
	if err != nil {
		return "", fmt.Errorf("read the identity in the ledger: %w", err)
	}
	if known != seen {
		r.replaced = time.Now()
		return fmt.Sprintf("APIExport %s has the identity %s, and the ledger's holders have %s: none of them can be seen; "+
			"restore the secret of that identity, "+
			"or start the controller with --accept-identity %[2]s to give up all that tenants had",
			r.opts.Slice, seen, known), nil
	}
	if time.Since(r.replaced) < settled {
		return fmt.Sprintf("APIExport %s has its identity again since less than %s", r.opts.Slice, settled), nil
	}
	return "", nil
}
