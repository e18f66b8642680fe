package allocator

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// Somebody has put a block into etcd by hand, where memory has another block or none. No call overwrites that block,
// and the Allocator fails.
func TestChangedByHand_IsNotWrittenOver(t *testing.T) {
	for name, c := range map[string]struct {
		cools bool // a block of claim a cools there
		write func(*icebox) error
	}{
		"a block is bound": {write: func(i *icebox) error { _, err := i.Bind(t.Context(), request("p", "c", 28)); return err }},
		"a former block is given back": {cools: true, write: func(i *icebox) error {
			_, err := i.Bind(t.Context(), named("new", "a", 28))
			return err
		}},
		"a cooldown ends": {cools: true, write: func(i *icebox) error {
			i.pass(time.Hour)
			<-i.Failed()
			return i.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			if c.cools {
				i.bind(request("p", "a", 28))
				i.release("a")
			}
			i.putHeld("p", request("p", "theirs", 28), "10.0.0.0/28")
			before := i.written()
			must.Be(t, c.write(i), ledger.ErrReplaced)
			if after := i.written(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the ledger is %v, and it was %v", after, before)
			}
		})
	}
}
