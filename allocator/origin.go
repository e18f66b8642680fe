package allocator

import "context"

// Origin returns where the holders of the ledger's blocks are, in the caller's words, such as the identity of the API
// that serves them. The first call on a ledger stores seen as its origin. If a later caller sees another origin than
// the returned one, it does not see the holders.
func (rc Recovery) Origin(ctx context.Context, seen string) (string, error) {
	return rc.a.store.Origin(ctx, seen)
}

// replaceOrigin gives the ledger the origin of the options.
func (rc Recovery) replaceOrigin(ctx context.Context) error {
	if rc.a.options.Origin == "" {
		return nil
	}
	return rc.a.store.ReplaceOrigin(ctx, rc.a.options.Origin)
}
