package allocator

import "github.com/kcp-ipam/ipam/allocator/internal/space"

// tell calls the functions of Options for the changes in a space.
func (a *Allocator) tell(n space.News) {
	if len(n.Touched) > 0 {
		a.options.Changed(a.Pools(), n.Touched...)
	}
	for _, h := range n.Woken {
		a.options.Wake(*h)
	}
	for _, p := range n.Left {
		a.options.Retired(p)
	}
	a.table.ServeStopped(n.Lowered)
	for _, p := range n.Drained {
		a.engine.Spawn(func() { a.Pools().retireDrained(p) })
	}
}
