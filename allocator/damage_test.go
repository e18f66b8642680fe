package allocator

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// unreadable has a value that a newer program may write, and a value that no program writes.
var unreadable = map[string]string{"newer": `{"v":9,"somebody":"else"}`, "damaged": `{"v":1,"pool":`}

// put puts a key below the ledger's prefix.
func (l *fixture) put(key, value string) {
	l.t.Helper()
	must.Get(l.etcd.Client().Put(l.t.Context(), store.DefaultPrefix+"/"+key, value))(l.t)
}

// putHeld puts a block of a request, and the key of its claim, as another writer would.
func (l *fixture) putHeld(space ledger.SpaceID, r ledger.Request, at string) {
	l.t.Helper()
	holding := wanted{Request: r}.holding(l.engine.Hooks.Now())
	held := store.Record{Held: &holding}
	must.Get(l.etcd.Client().Put(l.t.Context(), l.keys.Space(space).Block(prefix(at)), held.Encode()))(l.t)
	must.Get(l.etcd.Client().Put(l.t.Context(), l.keys.Claim(r.Holder.Claim), store.EncodeClaim(space, prefix(at))))(l.t)
}

// stored returns the value of a key below the ledger's prefix; empty if there is none.
func (l *fixture) stored(key string) string {
	l.t.Helper()
	for _, kv := range must.Get(l.etcd.Client().Get(l.t.Context(), store.DefaultPrefix+"/"+key))(l.t).Kvs {
		return string(kv.Value)
	}
	return ""
}

// spoil puts a value that cannot be read. mend puts the former value back.
func (l *fixture) spoil(key, value string) (mend func()) {
	l.t.Helper()
	before := l.stored(key)
	l.put(key, value)
	return func() {
		if before != "" {
			l.put(key, before)
			return
		}
		must.Get(l.etcd.Client().Delete(l.t.Context(), store.DefaultPrefix+"/"+key))(l.t)
	}
}

// wantUnreadable fails the test unless an error names the key.
func wantUnreadable(t *testing.T, what string, err error, key string) {
	t.Helper()
	var version *ledger.VersionError
	var damage *ledger.DamageError
	named := ""
	switch {
	case errors.As(err, &version):
		named = version.Key
	case errors.As(err, &damage):
		named = damage.Key
	}
	if named != store.DefaultPrefix+"/"+key || !ledger.Unreadable(err) {
		t.Errorf("%s: %v; want it to name the key %s", what, err, key)
	}
}

// A value that cannot be read when the ledger is opened stops its own space, and errors name its key. All other spaces
// go on. When the key can be read again, or is gone, the next Allocator that opens the ledger serves that space.
func TestUnreadable_StopsOnlyTheSpaceOfTheKey(t *testing.T) {
	for kind, value := range unreadable {
		for _, key := range []string{"spaces/p/blocks/010.000.000.000-26", "spaces/p/blocks/010.000.000.128-26", "spaces/p/blocks/nonsense", "spaces/p/head", "pools/p"} {
			t.Run(kind+" "+key, func(t *testing.T) {
				l := withPool(t, "10.0.0.0/24")
				l.pool("q", "10.1.0.0/24")
				l.bind(request("p", "held", 26))
				mend := l.spoil(key, value)
				l.again()
				_, err := l.Bind(t.Context(), request("p", "new", 26))
				wantUnreadable(t, "Bind", err, key)
				wantUnreadable(t, "Drain", l.Pools().Drain(t.Context(), "p"), key)
				l.bind(request("q", "c", 26))
				if err := l.Healthy(); err != nil {
					t.Errorf("Healthy() = %v; want nil, as others go on", err)
				}
				if got := l.engine.Unreadable(); got != 1 {
					t.Errorf("%d keys cannot be read; want 1", got)
				}
				mend()
				l.again()
				if b := l.bind(request("p", "new", 26)); b.Prefix == prefix("10.0.0.0/26") {
					t.Errorf("%v was bound twice", b.Prefix)
				}
				if got := l.engine.Unreadable(); got != 0 {
					t.Errorf("%d keys cannot be read after it was mended; want 0", got)
				}
				l.sameAsLedger()
			})
		}
	}
}

// A newer program has registered a pool whose record cannot be read. That pool may overlap any other, so no root pool
// is registered. When the record can be read, memory has the blocks that were bound in the pool meanwhile.
func TestUnreadable_PreventsRegisteringARootPool(t *testing.T) {
	l := newLedger(t)
	l.pool("q", "10.1.0.0/24")
	newer := ledger.Pool{ID: "p", Cluster: "platform", Name: "p", CIDR: prefix("10.0.0.0/24"), Space: "p", State: ledger.PoolOpen}
	l.put("pools/p", unreadable["newer"])
	l.put("spaces/p/head", store.EncodeHead(1))
	l.again()
	_, err := l.Pools().Register(t.Context(), root("r", "10.0.0.0/25"))
	wantUnreadable(t, "Register", err, "pools/p")
	l.bind(request("q", "c", 26))

	l.putHeld("p", request("p", "theirs", 26), "10.0.0.0/26")
	l.put("pools/p", store.EncodePool(newer))
	l.again()
	l.gets(request("p", "new", 26), "10.0.0.64/26")
	if _, err := l.Pools().Register(t.Context(), root("r", "10.0.0.0/25")); err == nil {
		t.Error("a root pool was registered that overlaps another")
	}
	l.sameAsLedger()
}

// A ledger whose ID cannot be read is not opened.
func TestOpen_NeedsTheLedgersID(t *testing.T) {
	l := newLedger(t)
	for kind, value := range unreadable {
		l.put("ledger", value)
		_, err := Open(t.Context(), l.etcd.Client(), Options{})
		wantUnreadable(t, "Open of a "+kind+" ledger", err, "ledger")
	}
}

// A list, and a walk, name the keys that cannot be read, and yield all other blocks.
func TestUnreadable_LetsAListGoOn(t *testing.T) {
	for kind, value := range unreadable {
		for _, at := range []string{"010.000.000.064-26", "nonsense"} {
			t.Run(kind+" "+at, func(t *testing.T) {
				l := withPool(t, "10.0.0.0/24")
				l.pool("q", "10.1.0.0/24")
				var want, got, walked []string
				for _, claim := range []string{"a", "b", "c"} {
					l.bind(request("p", claim, 26))
					want = append(want, claim)
				}
				l.bind(request("q", "d", 26))
				want = append(want, "d")
				key := "spaces/p/blocks/" + at
				if l.put(key, value); at != "nonsense" {
					want = slices.Delete(want, 1, 2)
				}
				failed := 0
				for b, err := range l.List(t.Context(), ListOptions{}) {
					if err == nil {
						got = append(got, b.Holder.Name)
						continue
					}
					failed++
					wantUnreadable(t, "List", err, key)
				}
				if failed != 1 || !slices.Equal(got, want) {
					t.Errorf("List has %v, and %d keys that cannot be read; want %v, and 1", got, failed, want)
				}
				l.put("claims/bad", "{")
				var damaged []string
				before := l.revision()
				revision, err := store.Reader{Client: l.etcd.Client()}.Walk(t.Context(), ledger.Visitor{
					Pool: func(ledger.Pool) {}, Tenure: func(ledger.Tenure) {}, Head: func(ledger.SpaceID) {}, Claim: func(ledger.ClaimID, ledger.SpaceID, netip.Prefix) {},
					Unread: func(_ ledger.SpaceID, got netip.Prefix) {
						if got != prefix("10.0.0.64/26") {
							t.Errorf("Walk tells that block %v cannot be read; want 10.0.0.64/26", got)
						}
					},
					Block: func(b ledger.Block) { walked = append(walked, b.Holder.Name) },
					Damaged: func(at string, err error) {
						damaged = append(damaged, strings.TrimPrefix(at, store.DefaultPrefix+"/"))
						wantUnreadable(t, "Walk", err, damaged[len(damaged)-1])
					},
				})
				slices.Sort(damaged)
				if err != nil || !slices.Equal(damaged, []string{"claims/bad", key}) || !slices.Equal(walked, want) {
					t.Errorf("Walk tells %v, and that %v cannot be read, %v; want %v, and claims/bad and %s", walked, damaged, err, want, key)
				}
				if after := l.revision(); revision != before || after != before {
					t.Errorf("Walk is as of revision %d, and the ledger at %d; want %d, and no change", revision, after, before)
				}
			})
		}
	}
}

// A child pool is retired by a transaction of its parent. While a key of the child's own space cannot be read, the
// child and its block stay, because that key may be a block.
func TestUnreadable_PreventsRetiringAChildPool(t *testing.T) {
	for _, key := range []string{"spaces/child/blocks/nonsense", "spaces/child/head", "pools/child"} {
		t.Run(key, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/24")
			must.Get(l.carve("p", "child", 26))(t)
			mend := l.spoil(key, unreadable["newer"])
			l.again()
			wantUnreadable(t, "Retire", l.Pools().Retire(t.Context(), "child"), key)
			mend()
			l.again()
			must.Do(t, l.Pools().Retire(t.Context(), "child"))
			l.sameAsLedger()
		})
	}
}
