package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/test/framework/retry"
)

const cooling = "cooling"

// over checks that a cooling block was not freed before its time, even if it was given back to a CREATE meanwhile.
// Only a child pool that is retired ends the cooldowns in it.
func (r *replay) over(c change, b block) {
	if b.state == "retained" || r.pools[b.pool] == "draining" {
		return
	}
	if seen := r.started.Add(time.Duration(c.seen)); seen.Before(b.until) {
		r.complain("revision %d: %s of %s was freed by %s, and cools until %s", c.revision, b.prefix, b.name, seen, b.until)
	}
}

// pool notes the state of a pool.
func (r *replay) pool(id string, e event) {
	var v struct{ State string }
	if e.value == nil {
		delete(r.pools, id)
		return
	}
	if err := json.Unmarshal(e.value, &v); err != nil {
		r.complain("pool %s is %s: %v", id, e.value, err)
	}
	r.pools[id] = cmp.Or(v.State, "open")
}

// warm waits until no block cools. Each cools for less than a second.
func (s *site) warm() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; retry.Pause(s.t.Context(), 50*time.Millisecond) {
		resp, err := s.client.Get(s.t.Context(), ledgerPrefix+"spaces/", clientv3.WithPrefix())
		s.check(err)
		var left []string
		for _, kv := range resp.Kvs {
			if strings.Contains(string(kv.Value), `"state":"cooling"`) {
				left = append(left, string(kv.Key))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("these blocks cool for ever: %v", left)
			return
		}
	}
}

// The replay finds a cooldown that was cut short, and passes one that was kept.
func TestReplay_FindsACooldownThatWasCutShort(t *testing.T) {
	started := time.Now()
	value := func(claim, name, state string, until time.Duration) []byte {
		if until == 0 {
			return fmt.Appendf(nil, `{"claim":%q,"pool":"c","name":%q,"state":%q}`, claim, name, state)
		}
		return fmt.Appendf(nil, `{"claim":%q,"pool":"c","name":%q,"state":%q,"until":%q}`, claim, name, state, started.Add(until).Format(time.RFC3339Nano))
	}
	const key, head = "spaces/c/blocks/010.002.000.016-28", "spaces/c/head"
	claim := func(id string) event {
		return event{"claims/" + id, []byte(`{"space":"c","prefix":"10.2.0.16/28"}`), true}
	}
	begin := []change{
		{1, 0, []event{{"pools/c", []byte(`{"state":"open"}`), true}}},
		{2, 1e9, []event{{key, value("u", "n", "bound", 0), true}, claim("u"), {head, []byte(`{"n":1}`), true}}},
		{3, 2e9, []event{{key, value("u", "n", "cooling", 5*time.Second), false}, {head, []byte(`{"n":2}`), false}}},
	}
	freed := []event{{key, nil, false}, {"claims/u", nil, false}, {head, []byte(`{"n":3}`), false}}
	given := func(to, name string) []event {
		return []event{{key, value(to, name, "bound", 0), false}, {"claims/u", nil, false}, claim(to), {head, []byte(`{"n":3}`), false}}
	}
	const made = "00000000-0000-8000-8000-000000000000"
	created := given(made, "n")
	created[0].value = value(made, "n", "bound", 5*time.Second)
	failed := []event{{key, nil, false}, {"claims/" + made, nil, false}, {head, []byte(`{"n":4}`), false}}
	for name, test := range map[string]struct {
		last []change
		want int
	}{
		"freed in time":             {[]change{{4, 5.1e9, freed}}, 0},
		"freed too early":           {[]change{{4, 4.9e9, freed}}, 1},
		"given back":                {[]change{{4, 3e9, given("v", "n")}}, 0},
		"given to another":          {[]change{{4, 3e9, given("v", "m")}}, 1},
		"given to another, in time": {[]change{{4, 6e9, given("v", "m")}}, 1}, // it has to be freed in between
		"a CREATE fails in time":    {[]change{{4, 3e9, created}, {5, 5.1e9, failed}}, 0},
		"a CREATE fails too early":  {[]change{{4, 3e9, created}, {5, 4.9e9, failed}}, 1},
	} {
		changes := append(slices.Clone(begin), test.last...)
		for i := range changes {
			changes[i].events = append(slices.Clip(changes[i].events), took(0, 1, i).events...)
		}
		if r := newReplay(started, changes); len(r.problems) != test.want {
			t.Errorf("%s: found %v, want %d problems", name, r.problems, test.want)
		}
	}
}
