package space

// FreezeReason is why a pool keeps its space frozen.
type FreezeReason int

const (
	// NotFrozen: it does not.
	NotFrozen FreezeReason = iota
	// Untrusted: this Allocator was not told yet that nothing is lost.
	Untrusted
	// LostChanges: the ledger says that changes are lost.
	LostChanges
)

// FreezeReason is why the pool keeps its space frozen, if it does.
func (p *Pool) FreezeReason() FreezeReason {
	switch {
	case p.Frozen:
		return LostChanges
	case p.Untrusted:
		return Untrusted
	}
	return NotFrozen
}
