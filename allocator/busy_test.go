package allocator

import (
	"fmt"
	"sync"
	"testing"
)

// A block in dispute is released, and one is adopted beside others, in a space that others write all the time.
func TestDispute_InABusySpace(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	other := &fixture{Allocator: l.open(), t: t, etcd: l.etcd}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				other.bind(exactly(request("p", fmt.Sprint("busy", i), 0), fmt.Sprintf("10.0.%d.%d/32", 128+i/256%128, i%256)))
			}
		}
	})
	defer busy.Wait()
	defer close(stop)
	for i := range 5 {
		at := fmt.Sprintf("10.0.%d.0/28", i)
		first, second := fmt.Sprint("first", i), fmt.Sprint("second", i)
		l.bind(exactly(request("p", first, 0), at))
		l.adopt(second, at, Bound)
		l.adopt(fmt.Sprint("around", i), fmt.Sprintf("10.0.%d.0/27", i), Bound)
		for _, claim := range []string{"around" + fmt.Sprint(i), first} {
			l.free(ClaimID(claim))
		}
		if b, ok, err := l.Lookup(t.Context(), ClaimID(second)); err != nil || !ok || b.State != Bound {
			t.Errorf("Lookup of the last holder = %s, %t, %v; want it bound", b.State, ok, err)
		}
	}
}
