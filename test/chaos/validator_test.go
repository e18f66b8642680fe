package chaos

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// did is an operation that lasted from call to end.
func did(do string, call, end int64, o outcome) operation {
	return operation{request: request{Do: do, Claim: "c", Pool: "c", Length: 28}, outcome: o, Call: call, Return: end}
}

// handOver is an operation that gives the block of a former claim to another claim.
func handOver(former, claim string, call, end int64, o outcome) operation {
	op := did("hand over", call, end, o)
	op.Claim, op.Former, op.Moved = ledger.ClaimID(claim), ledger.ClaimID(former), o.Unknown == ""
	return op
}

func at(prefix string) outcome { return outcome{Prefix: netip.MustParsePrefix(prefix), Revision: 2} }

// The model of a claim accepts right histories, and no wrong ones.
func TestClaimModel(t *testing.T) {
	lost, full := outcome{Unknown: "lost"}, outcome{Refusal: exhausted, Largest: -1}
	here, there := at("10.2.0.16/28"), at("10.2.0.32/28")
	for name, test := range map[string]struct {
		history []operation
		want    bool
	}{
		"bound twice, one block":             {[]operation{did("bind", 1, 2, here), did("bind", 3, 4, here)}, true},
		"bound twice, two blocks":            {[]operation{did("bind", 1, 2, here), did("bind", 3, 4, there)}, false},
		"bound again after a release":        {[]operation{did("bind", 1, 2, here), did("release", 3, 4, outcome{}), did("bind", 5, 6, there)}, true},
		"released and still there":           {[]operation{did("bind", 1, 2, here), did("release", 3, 4, outcome{}), did("lookup", 5, 6, here)}, false},
		"lost, and bound":                    {[]operation{did("bind", 1, 2, lost), did("lookup", 5, 6, here), did("lookup", 7, 8, here)}, true},
		"lost, and bound much later":         {[]operation{did("bind", 1, 2, lost), did("lookup", 5, 6, outcome{}), did("lookup", 7, 8, here)}, true},
		"lost, and bound in two places":      {[]operation{did("bind", 1, 2, lost), did("lookup", 5, 6, here), did("lookup", 7, 8, there)}, false},
		"lost release":                       {[]operation{did("bind", 1, 2, here), did("release", 3, 4, lost), did("lookup", 5, 6, outcome{})}, true},
		"gone without a release":             {[]operation{did("bind", 1, 2, here), did("lookup", 5, 6, outcome{})}, false},
		"there without a bind":               {[]operation{did("lookup", 5, 6, here)}, false},
		"refused though it has a block":      {[]operation{did("bind", 1, 2, here), did("bind", 3, 4, full)}, false},
		"refused while another bind is on":   {[]operation{did("bind", 1, 5, here), did("bind", 2, 4, full)}, true},
		"handed over":                        {[]operation{did("bind", 1, 2, here), handOver("c", "d", 3, 4, here), did("lookup", 5, 6, outcome{})}, true},
		"handed over, and still there":       {[]operation{did("bind", 1, 2, here), handOver("c", "d", 3, 4, here), did("lookup", 5, 6, here)}, false},
		"handed over to the claim":           {[]operation{handOver("b", "c", 1, 2, here), did("lookup", 3, 4, here)}, true},
		"handed over to the claim, and gone": {[]operation{handOver("b", "c", 1, 2, here), did("lookup", 3, 4, outcome{})}, false},
		"hand over lost":                     {[]operation{did("bind", 1, 2, here), handOver("c", "d", 3, 4, lost), did("lookup", 5, 6, here)}, true},
		"expired":                            {[]operation{did("bind", 1, 2, here), did("expire", 3, 4, outcome{Freed: true}), did("lookup", 5, 6, outcome{})}, true},
		"expired, and still there":           {[]operation{did("bind", 1, 2, here), did("expire", 3, 4, outcome{Freed: true}), did("lookup", 5, 6, here)}, false},
		"lost lookups and refusals of work":  {[]operation{did("lookup", 1, 2, lost), did("bind", 3, 4, outcome{Refusal: busy}), did("lookup", 5, 6, outcome{})}, true},
	} {
		history := claimHistories(test.history)["claim c"]
		if got := porcupine.CheckOperations(claimModel.ToModel(), history); got != test.want {
			t.Errorf("%s: linearizable %t; want %t", name, got, test.want)
		}
	}
}

// The model of a space accepts true refusals, and no untrue ones.
func TestRoomModel(t *testing.T) {
	whole := netip.MustParsePrefix("10.2.0.32/27")
	steps := []step{
		{space: "c", prefix: whole, bound: true, after: 10, until: 20},
		{space: "c", prefix: netip.MustParsePrefix("10.2.0.16/28"), bound: true, after: 30, until: 40},
		{space: "c", prefix: whole, after: 50, until: 60},
	}
	r := newRoom("c", steps)
	taken := did("bind", 0, 0, outcome{Refusal: inUse})
	taken.Exact = netip.MustParsePrefix("10.2.0.40/29")
	excluded := taken
	excluded.Exact = netip.MustParsePrefix("10.2.0.0/30")
	for name, test := range map[string]struct {
		op         operation
		call, last int64
		want       bool
	}{
		"full, before":             {did("bind", 0, 0, outcome{Refusal: exhausted, Largest: 29}), 1, 9, false},
		"full, while it was":       {did("bind", 0, 0, outcome{Refusal: exhausted, Largest: 29}), 41, 45, true},
		"full, during":             {did("bind", 0, 0, outcome{Refusal: exhausted, Largest: 29}), 1, 35, true},
		"full, afterwards":         {did("bind", 0, 0, outcome{Refusal: exhausted, Largest: 29}), 61, 62, false},
		"full, with another large": {did("bind", 0, 0, outcome{Refusal: exhausted, Largest: 30}), 41, 45, false},
		"in use, while it was":     {taken, 21, 22, true},
		"in use, afterwards":       {taken, 61, 62, false},
		"in use, as an exclusion":  {excluded, 1, 2, true},
	} {
		test.op.Call, test.op.Return = test.call, test.last
		history := roomHistory("c", steps, []operation{test.op})
		if got := porcupine.CheckOperations(r.model(), history); got != test.want {
			t.Errorf("%s: linearizable %t; want %t", name, got, test.want)
		}
	}
}

// The replay of a ledger's history finds each error in it.
func TestReplay(t *testing.T) {
	for name, test := range map[string]struct {
		changes []change
		want    string
	}{
		"sound":                    {[]change{bound(2, "one", "10.2.0.16/28", 1), bound(3, "two", "10.2.0.32/28", 2)}, ""},
		"overlap":                  {[]change{bound(2, "one", "10.2.0.16/28", 1), bound(3, "two", "10.2.0.16/29", 2)}, "I1"},
		"two blocks":               {[]change{bound(2, "one", "10.2.0.16/28", 1), bound(3, "one", "10.2.0.32/28", 2)}, "I3"},
		"no claim":                 {[]change{without(bound(2, "one", "10.2.0.16/28", 1), "claims")}, "I2"},
		"no pool":                  {[]change{bound(2, "one", "10.2.0.16/28", 1), {revision: 3, events: []event{{key: "pools/c"}, took(3, 1, 3).events[0]}}}, "is not there"},
		"handed over":              {[]change{bound(2, "one", "10.2.0.16/28", 1), handed("one-later", "retained", "one")}, ""},
		"handed over, bound":       {[]change{bound(2, "one", "10.2.0.16/28", 1), handed("one-later", "bound", "one")}, ""},
		"handed to another":        {[]change{bound(2, "one", "10.2.0.16/28", 1), handed("two", "retained", "two")}, "was retained of claim one"},
		"handed to another, bound": {[]change{bound(2, "one", "10.2.0.16/28", 1), handed("two", "bound", "two")}, "was bound of claim one"},
		"handed over, key kept":    {[]change{bound(2, "one", "10.2.0.16/28", 1), without(handed("one-later", "retained", "one"), "claims/one")}, "I2"},
		"head not put":             {[]change{without(bound(2, "one", "10.2.0.16/28", 1), "spaces/c/head")}, "not its head"},
		"deposed":                  {[]change{took(2, 1, 0), took(3, 2, 0), took(4, 1, 1)}, "after {N:2 C:0}"},
		"office not put":           {[]change{without(bound(2, "one", "10.2.0.16/28", 1), "head")}, "not its head"},
		"head put unawares":        {[]change{bound(2, "one", "10.2.0.16/28", 1), bound(3, "two", "10.2.0.32/28", 1)}, "after 1"},
	} {
		r := newReplay(time.Now(), append([]change{registered}, test.changes...))
		got := strings.Join(r.problems, "\n")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: problems %q; want %q", name, got, test.want)
		}
	}
}

// explain finds an answer that was never put, and a block that nobody asked for.
func TestExplain_FindsAnswersAndBlocksWithoutARequest(t *testing.T) {
	r := newReplay(time.Now(), []change{registered, bound(2, "c", "10.2.0.16/28", 1)})
	r.explain([]operation{did("bind", 1, math.MaxInt64, at("10.2.0.16/28"))})
	if len(r.problems) > 0 {
		t.Error(r.problems)
	}
	for name, ops := range map[string][]operation{
		"nobody has asked": {did("release", 1, 2, outcome{})},
		"never put":        {did("bind", 1, 2, at("10.2.0.32/28")), did("bind", 1, 200, at("10.2.0.16/28"))},
		"before it was":    {did("bind", 500, 600, at("10.2.0.16/28")), did("bind", 500, 600, outcome{Unknown: "lost"})},
	} {
		r := newReplay(time.Now(), []change{registered, bound(2, "c", "10.2.0.16/28", 1)})
		if r.explain(ops); len(r.problems) == 0 {
			t.Error(name, "is not found")
		}
	}
}

var registered = change{revision: 1, events: []event{{key: "pools/c", value: []byte("{}"), created: true}, {key: "head", value: []byte(`{"v":1,"n":1,"c":0}`)}}}

// bound returns a revision in which a claim gets a block.
func bound(revision int64, claim, prefix string, head int) change {
	p := netip.MustParsePrefix(prefix)
	o := p.Addr().As4()
	return change{revision: revision, seen: 100 * revision, events: []event{
		{key: fmt.Sprintf("spaces/c/blocks/%03d.%03d.%03d.%03d-%02d", o[0], o[1], o[2], o[3], p.Bits()), created: true,
			value: fmt.Appendf(nil, `{"v":1,"pool":"c","claim":%q,"name":%q,"state":"bound"}`, claim, claim)},
		{key: "claims/" + claim, value: fmt.Appendf(nil, `{"v":1,"space":"c","prefix":%q}`, prefix)},
		{key: "spaces/c/head", value: fmt.Appendf(nil, `{"v":1,"n":%d}`, head)},
		took(revision, 1, int(revision)).events[0],
	}}
}

// took returns a revision in which the n-th writer puts the head of the ledger for the c-th time.
func took(revision int64, n, c int) change {
	return change{revision: revision, events: []event{{key: "head", value: fmt.Appendf(nil, `{"v":1,"n":%d,"c":%d}`, n, c)}}}
}

// handed returns revision 3, in which the claim "one", whose block is in that state, gives the block to another claim
// of that name.
func handed(to, state, name string) change {
	const from, prefix = "one", "10.2.0.16/28"
	before, after := bound(3, from, prefix, 2), bound(3, to, prefix, 3)
	before.events[0].value = fmt.Appendf(nil, `{"v":1,"pool":"c","claim":%q,"name":%q,"state":%q}`, from, from, state)
	after.events[0].value = fmt.Appendf(nil, `{"v":1,"pool":"c","claim":%q,"name":%q,"state":"bound"}`, to, name)
	before.events[0].created, after.events[0].created = false, false
	after.events = append([]event{before.events[0], before.events[2]}, append(after.events, event{key: "claims/" + from})...)
	return after
}

// without returns a revision without the events of a prefix.
func without(c change, prefix string) change {
	var events []event
	for _, e := range c.events {
		if !strings.HasPrefix(e.key, prefix) {
			events = append(events, e)
		}
	}
	c.events = events
	return c
}
