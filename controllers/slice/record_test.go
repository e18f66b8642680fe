package slice

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

type unbound struct{ since time.Time }

func (u unbound) Holder(context.Context, ledger.Holder) (live.Answer, error) {
	return live.Answer{Verdict: live.Unbound, Since: u.since}, nil
}

// A workspace that is bound nowhere may be on a shard that has not entered itself in an endpoint
// slice that was made after the binding. Its record stays, unless it was seen to leave.
func TestConfirm_ABindingOlderThanTheEndpointSlice(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		bound    time.Time
		departed bool
		want     error
	}{
		"younger":             {bound: made.Add(time.Minute)},
		"older":               {bound: made, want: errDoubt},
		"older, seen leaving": {bound: made, departed: true},
	} {
		p := &pass{Controller: &Controller{Options: Options{Oracle: unbound{made}, Departed: func(ledger.ClusterName) bool { return tt.departed }}}}
		if err := p.confirm(t.Context(), ledger.Slice{Cluster: "w", Since: tt.bound}, false); !errors.Is(err, tt.want) {
			t.Errorf("%s: confirm = %v, want %v", name, err, tt.want)
		}
	}
}
