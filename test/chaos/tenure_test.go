package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tenures checks the ledger's own history: each change must leave a record of each holder that has lost its block by
// it, and of no other holder. It returns the differences.
func tenures(changes []change) (problems []string) {
	blocks := map[string]block{} // by key
	for _, c := range changes {
		ended, recorded := map[string]int{}, map[string]int{}
		for _, e := range c.events {
			kind, rest, _ := strings.Cut(e.key, "/")
			space, what, _ := strings.Cut(rest, "/")
			written, isBlock := strings.CutPrefix(what, "blocks/")
			switch {
			case kind == "history" && e.value != nil:
				for _, name := range readTenures(what, e.value) {
					recorded[name]++
				}
			case kind == "spaces" && isBlock:
				if old, ok := blocks[e.key]; ok && leaves(old, space, written, e.value) {
					ended[ending(space, old.prefix.String(), old.claim)]++
				}
				delete(blocks, e.key)
				if e.value != nil {
					blocks[e.key] = readBlock(space, written, e.value)
				}
			}
		}
		if !maps.Equal(ended, recorded) {
			problems = append(problems, fmt.Sprintf("revision %d takes blocks from %v, and records %v",
				c.revision, slices.Sorted(maps.Keys(ended)), slices.Sorted(maps.Keys(recorded))))
		}
	}
	return problems
}

// leaves reports whether the holder of a block loses it by what is written.
func leaves(old block, space, written string, value []byte) bool {
	if old.state == cooling {
		return false // it had let go before
	}
	if value == nil {
		return true
	}
	now := readBlock(space, written, value)
	return now.claim != old.claim || now.state == cooling
}

func ending(space, prefix, claim string) string {
	return fmt.Sprintf("%s of %s in %s", prefix, claim, space)
}

// readTenures returns whose tenures a key of the history records. The key is <bucket>/<space>/<revision>.<part>.
func readTenures(what string, value []byte) (names []string) {
	space, _, _ := strings.Cut(what, "/")
	var v struct {
		T []struct{ P, C string }
	}
	if err := json.Unmarshal(value, &v); err != nil {
		panic(fmt.Sprintf("history %s: %v", what, err))
	}
	for _, t := range v.T {
		names = append(names, ending(space, t.P, t.C))
	}
	return names
}

// tenures passes a history that agrees with the ledger, and no other.
func TestTenures(t *testing.T) {
	const key, kept = "spaces/c/blocks/010.002.000.016-28", "history/010.002.000.000-24/c/0000000000000001.000"
	value := func(claim, state string) []byte {
		return fmt.Appendf(nil, `{"claim":%q,"pool":"c","name":"n","state":%q}`, claim, state)
	}
	record := func(claims ...string) event {
		entries := make([]string, len(claims))
		for i, claim := range claims {
			entries[i] = fmt.Sprintf(`{"p":"10.2.0.16/28","c":%q}`, claim)
		}
		return event{key: kept, value: []byte(`{"v":1,"t":[` + strings.Join(entries, ",") + `]}`)}
	}
	had := change{revision: 2, events: []event{{key: key, value: value("one", "bound"), created: true}}}
	for name, tt := range map[string]struct {
		events []event
		want   bool
	}{
		"released":            {[]event{{key: key}, record("one")}, true},
		"released, unknown":   {[]event{{key: key}}, false},
		"of another":          {[]event{{key: key}, record("two")}, false},
		"recorded twice":      {[]event{{key: key}, record("one", "one")}, false},
		"nothing happened":    {[]event{record("one")}, false},
		"retained":            {[]event{{key: key, value: value("one", "retained")}}, true},
		"it cools":            {[]event{{key: key, value: value("one", cooling)}, record("one")}, true},
		"it cools, unknown":   {[]event{{key: key, value: value("one", cooling)}}, false},
		"given to a later":    {[]event{{key: key, value: value("two", "bound")}, record("one")}, true},
		"the record is old":   {[]event{{key: key}, {key: kept}}, false},
		"pruned, and no more": {[]event{{key: kept}}, true},
	} {
		problems := tenures([]change{had, {revision: 3, events: tt.events}})
		if got := len(problems) == 0; got != tt.want {
			t.Errorf("%s: agrees %t, want %t: %v", name, got, tt.want, problems)
		}
	}
}
