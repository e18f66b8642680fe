package allocator

import "context"

// Origin tells where the holders of the ledger's blocks are, in words of the caller's, such as the identity of the API
// that serves them. The first call on a ledger says it, and the ledger keeps that. A later caller that sees another
// origin than the one that is returned does not see the holders.
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
