package ledger

import "net/netip"

// Visitor gets the content of a ledger: first all pools, then for each space its blocks in the order of their addresses
// and its head, then all claims, and then the tenures that have ended. Tenures come bucket by bucket, and the tenures
// of one block in the order of time. The functions are called one at a time. All fields are required.
type Visitor struct {
	Pool func(Pool)
	// Block is called once for each holder of a block.
	Block func(Block)
	// Head is called for each space that has a head.
	Head func(SpaceID)
	// Claim is called with the space and the prefix that the key of a claim names.
	Claim func(ClaimID, SpaceID, netip.Prefix)
	// Tenure is called once for each tenure of the history.
	Tenure func(Tenure)
	// Damaged is called for each key that cannot be read.
	Damaged func(key string, err error)
	// Unread is called as well if a key that cannot be read is the key of a block.
	Unread func(SpaceID, netip.Prefix)
}
