package allocator

import (
	"bufio"
	"bytes"
	"errors"
	flags "flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// The ledgers of earlier programs lie in testdata/ledgers, each as its program wrote it, beginning with the first one. A .ledger file has a
// line for each key, with the revision of its last change, and begins with the time at which it was written.
// A .golden file has what such a ledger says. None is ever changed. When the program writes something that
// no file has yet, a new file is added:
//
//	go test ./allocator -run TestOlder -ledger <name>
var newLedgerFile = flags.String("ledger", "", "write this ledger into testdata/ledgers, as the program does now")

const ledgerFiles = "testdata/ledgers"

// olderKey is a key of a ledger file.
type olderKey struct {
	revision   int64
	key, value string
}

// readLedgerFile reads a ledger file, whose keys are in the order of their revisions.
func readLedgerFile(t *testing.T, file string) (at time.Time, keys []olderKey) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		first, rest, _ := strings.Cut(lines.Text(), " ")
		if first == "at" {
			at, err = time.Parse(time.RFC3339, rest)
		} else {
			k := olderKey{}
			k.revision, err = strconv.ParseInt(first, 10, 64)
			k.key, k.value, _ = strings.Cut(rest, " ")
			keys = append(keys, k)
		}
		if err != nil {
			t.Fatalf("%s: %q: %v", file, lines.Text(), err)
		}
	}
	return at, keys
}

// older opens a ledger file at the time at which it was written. Each key has the revision that it had.
func older(t *testing.T, file string) *chronicle {
	t.Helper()
	at, keys := readLedgerFile(t, file)
	e := etcdtest.NewWith(t, embedetcd.Options{}) // whose revisions begin with 1
	put := func(key, value string) (revision int64) {
		resp := must.Get(e.Client().Put(t.Context(), key, value))(t)
		return resp.Header.Revision
	}
	revision := put("before", "")
	for _, next := range slices.CompactFunc(slices.Clone(keys), func(a, b olderKey) bool { return a.revision == b.revision }) {
		for revision < next.revision-1 {
			revision = put("before", "")
		}
		var puts []olderKey
		for _, k := range keys {
			if k.revision == next.revision {
				puts = append(puts, k)
			}
		}
		revision = putTogether(t, e, puts)
	}
	c := &chronicle{room: &room{fixture: &fixture{t: t, etcd: e}, clock: newClock()}, cooldown: time.Hour}
	c.clock.time = at
	c.settings = Options{History: 24 * time.Hour, Cooldown: func(ledger.Block) (time.Duration, error) { return c.cooldown, nil }}
	c.Allocator = c.reopen()
	return c
}

// says lists what a ledger says, by all who read it.
func (c *chronicle) says() string {
	c.t.Helper()
	var b strings.Builder
	line := func(format string, of ...any) { fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf(format, of...), " ")) }
	at := func(when time.Time) string {
		if when.IsZero() {
			return "-"
		}
		return c.minutes(when)
	}
	holder := func(h ledger.Holder) string {
		return fmt.Sprintf("%s (%s %s %s)", h.Claim, h.Cluster, h.Namespace, h.Name)
	}
	var pools []ledger.PoolID
	_, err := Reader{Client: c.etcd.Client()}.Walk(c.t.Context(), ledger.Visitor{
		Pool: func(p ledger.Pool) {
			pools = append(pools, p.ID)
			line("pool %s %s of %s in %s, name %s, parent %q, %s, excluded %v, frozen %t, disputed %t, registered %s",
				p.ID, p.CIDR, p.Cluster, p.Space, p.Name, p.Parent, p.State, p.Excluded, p.Frozen, p.Disputed, at(p.RegisteredAt))
			if d := p.Derived; d != nil {
				line("it is for class %q, pool %q, workspace %q, scope %v, held by %s since %s, released until %s",
					d.Class, d.Of, d.Workspace, map[string]ledger.ScopeRef(d.Scope), holder(d.Holder), at(d.HeldSince), at(d.Releasing))
			}
			if p.Spaces > 0 {
				line("it has %d address spaces", p.Spaces)
			}
		},
		Block: func(k ledger.Block) {
			line("block %s of %s, holder %s, class %q, %s, %s, shared %t, at %s, until %s, since %s, adopted %t, slice %t",
				k.Prefix, k.Pool, holder(k.Holder), k.Class, k.Policy, k.State, k.Shared, at(k.BoundAt), at(k.Until), at(k.Since), k.Adopted, k.Slice)
		},
		Head:  func(s ledger.SpaceID) { line("head of %s", s) },
		Claim: func(id ledger.ClaimID, s ledger.SpaceID, p netip.Prefix) { line("claim %s: %s in %s", id, p, s) },
		Tenure: func(h ledger.Tenure) {
			line("tenure %s of %s, holder %s, class %q, %s..%s, cools until %s, %s, adopted %t, disputed %t, slice %t",
				h.Prefix, h.Pool, holder(h.Holder), h.Class, at(h.From), at(h.Until), at(h.CoolsUntil), h.Cause, h.Adopted, h.Disputed, h.Slice)
		},
		Damaged: func(key string, err error) { c.t.Errorf("%s cannot be read: %v", key, err) },
		Unread:  func(s ledger.SpaceID, p netip.Prefix) { c.t.Errorf("block %s of %s cannot be read", p, s) },
	})
	must.Do(c.t, err)
	for _, id := range pools {
		k, _ := c.Pools().Capacity(id)
		changes := must.Get(c.Pools().Changes(id))(c.t)
		line("capacity of %s: %s, allocated %s, available %s, cooling %s, %d blocks, %d stranded, %d changes, largest free /%d, next release %s, frozen %t",
			id, k.Total, k.Allocated, k.Available, k.Cooling, k.Blocks, k.Stranded, changes, k.LargestFree, at(k.NextRelease), c.Recovery().Frozen(id))
		slices := must.Get(c.Slices().List(c.t.Context(), id))(c.t)
		for _, s := range slices {
			line("slice of %s, binding %s, child %q, %s since %s", s.Cluster, s.Binding, s.Child, s.State, at(s.Since))
		}
	}
	due, _ := c.Retained().Due(c.clock.now().Add(24 * time.Hour))
	for _, h := range due {
		line("the lease of %s ends within a day", holder(h))
	}
	return b.String()
}

// olderFiles finds the ledger files.
func olderFiles(t *testing.T) []string {
	t.Helper()
	if *newLedgerFile != "" {
		writeLedgerFile(t, filepath.Join(ledgerFiles, *newLedgerFile+".ledger"))
	}
	files, err := filepath.Glob(filepath.Join(ledgerFiles, "*.ledger"))
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v; want a ledger", files, err)
	}
	return files
}

// A ledger of an earlier program says the same to this one, and breaks no invariant.
func TestOlder_SaysTheSame(t *testing.T) {
	for _, file := range olderFiles(t) {
		c := older(t, file)
		c.sameAsLedger()
		golden := strings.TrimSuffix(file, ".ledger") + ".golden"
		got := c.says()
		want, err := os.ReadFile(golden)
		if os.IsNotExist(err) && *newLedgerFile != "" {
			must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
			continue
		}
		must.Do(t, err)
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		if id, read := c.Recovery().LedgerID(), c.reopen().Recovery().LedgerID(); !strings.Contains(c.stored("ledger"), `"id":"`+id+`"`) || read != id {
			t.Errorf("%s: the ledger is %s, and %s when it is opened again; want the ID that it has", file, id, read)
		}
		before, _ := c.etcd.Client().Get(t.Context(), "none")
		c.reopen()
		if after, _ := c.etcd.Client().Get(t.Context(), "none"); after.Header.Revision != before.Header.Revision {
			t.Errorf("%s: to open it has changed it", file)
		}
	}
}

// Whatever an earlier program wrote can be used, and ended.
func TestOlder_CanBeUsedAndEnded(t *testing.T) {
	for _, file := range olderFiles(t) {
		c := older(t, file)
		for _, b := range listed(t, c.Allocator, ListOptions{}) {
			switch b.State {
			case ledger.Reserved:
				if _, ok, err := c.Reservations().Confirm(t.Context(), Confirmation{Reservation: b.Holder.Claim, Claim: "of-" + b.Holder.Claim, Prefix: b.Prefix, Answered: b.BoundAt, Certain: true}); err != nil || !ok {
					t.Errorf("Confirm of %s: %t, %v", b.Holder.Claim, ok, err)
				}
			case ledger.Retained:
				to := Successor{Holder: b.Holder, Answered: b.BoundAt}
				to.Holder.Claim = "after-" + b.Holder.Claim
				if _, err := c.Retained().Reuse(t.Context(), b, to); err != nil {
					t.Errorf("Reuse of %s: %v", b.Prefix, err)
				}
			case ledger.Disputed:
				if _, child := c.Pools().Get(ledger.PoolID(b.Holder.Claim)); !child {
					c.free(b.Holder.Claim)
				}
			case ledger.Bound, ledger.Cooling:
			}
		}
		for p := range c.Pools().All() {
			must.Do(t, c.Pools().EndDispute(t.Context(), p.ID))
			if d := p.Derived; d != nil && d.Class != "" {
				must.Do(t, c.Derived().Reopen(t.Context(), p.ID, d.Releasing))
				must.Do(t, c.Derived().Drop(t.Context(), p.ID, d.Holder.Claim, time.Time{}))
			}
			k, _ := c.Pools().Capacity(p.ID)
			must.Do(t, c.Recovery().Resume(t.Context(), p.ID, k.Changes))
			if p.State == ledger.PoolOpen && p.Spaces == 0 {
				c.bind(request(p.ID, "new-in-"+string(p.ID), p.CIDR.Addr().BitLen()))
			}
		}
		c.sameAsLedger()
		c.end()
		if left := etcdtest.CheckLedger(t, c.etcd.Client(), store.DefaultPrefix); len(left) > 0 {
			t.Errorf("%s: %v are left", file, left)
		}
	}
}

// end frees all blocks, and retires all pools, the children first.
func (c *chronicle) end() {
	c.t.Helper()
	for _, b := range listed(c.t, c.Allocator, ListOptions{}) {
		if _, child := c.Pools().Get(ledger.PoolID(b.Holder.Claim)); !child {
			c.free(b.Holder.Claim)
		}
	}
	pools := slices.Collect(c.Pools().All())
	slices.SortFunc(pools, func(a, b ledger.Pool) int { return b.CIDR.Bits() - a.CIDR.Bits() })
	for _, p := range pools {
		if err := c.Pools().Drain(c.t.Context(), p.ID); !errors.Is(err, ledger.ErrUnknownPool) { // one that drained is gone with its last block
			must.Do(c.t, err)
		}
	}
	for _, p := range pools {
		must.Do(c.t, c.Slices().DropAll(c.t.Context(), p.ID))
		if err := c.Pools().Retire(c.t.Context(), p.ID); err != nil {
			c.t.Fatalf("Retire %s: %v; it has %v", p.ID, err, listed(c.t, c.Allocator, ListOptions{Pool: p.ID}))
		}
	}
}
