package consumer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Claims come, lose their consumers and go, and nothing stays of them.
func TestBrake_ForgetsWhoIsGone(t *testing.T) {
	t.Parallel()
	b := &brake{}
	at := time.Unix(0, 0)
	for day := range 10 {
		at = at.Add(window + time.Second)
		for i := range 5 {
			b.note("a", types.UID(fmt.Sprint(day, "/", i)), true, at)
		}
		b.note("b", "x", day == 0, at)
	}
	if n := len(b.abandoned["a"]); n != 5 {
		t.Errorf("%d claims count, want those of the last window, 5", n)
	}
	if _, kept := b.abandoned["b"]; kept {
		t.Error("a workspace is remembered that has no abandoned claim")
	}
	if b.free("a", 4, at) || !b.free("a", 5, at) {
		t.Error("the brake does not count the claims of the last window")
	}
}
