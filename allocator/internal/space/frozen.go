package space

// FreezeReason is why a pool keeps its space frozen.
type FreezeReason int

const (
	// NotFrozen: the pool does not keep it frozen.
	NotFrozen FreezeReason = iota
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
	}
	return NotFrozen
}
