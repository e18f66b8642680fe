package space

// FreezeReason is why a pool keeps its space frozen.
type FreezeReason int

const (
	// NotFrozen: the pool does not keep it frozen.
	NotFrozen FreezeReason = iota
	// Releasing: the claim that holds the pool is being deleted.
	Releasing
	// Disputed: others hold some of the pool's addresses in a pool above it.
	Disputed
	// Untrusted: Trust was not called yet in this Allocator.
	Untrusted
	// LostChanges: the ledger records that changes are lost.
	LostChanges
)

// FreezeReason is why the pool keeps its space frozen, or NotFrozen.
func (p *Pool) FreezeReason() FreezeReason {
	switch {
	case p.Frozen:
		return LostChanges
	case p.Untrusted:
		return Untrusted
	case p.Disputed:
		return Disputed
	case p.Closed():
		return Releasing
	}
	return NotFrozen
}
