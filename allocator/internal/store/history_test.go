package store

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

func tenure(p string, revision int64) ledger.Tenure {
	return ledger.Tenure{
		Prefix: netip.MustParsePrefix(p), Space: "s:a%2Fb", Pool: "p", PoolName: "net-a", Scope: "network=a", Class: "standard", Slice: true, Adopted: true,
		Holder: ledger.Holder{Claim: "c", Cluster: "k", Namespace: "n", Name: "web"}, From: time.UnixMilli(1).UTC(), Until: time.UnixMilli(2).UTC(),
		CoolsUntil: time.UnixMilli(3).UTC(), Cause: ledger.CauseReleased, Revision: revision,
	}
}

func written(space ledger.SpaceID, head int64, tenures ...ledger.Tenure) *mvccpb.KeyValue {
	var farewells []*Farewell
	for _, t := range tenures {
		farewells = append(farewells, FarewellOf(t))
	}
	op := Keys("/ipam/v1").Space(space).PutFarewells(head, farewells)[0]
	return &mvccpb.KeyValue{Key: op.KeyBytes(), Value: op.ValueBytes()}
}

func TestTenures_AreReadAsTheyAreWritten(t *testing.T) {
	keys := Keys("/ipam/v1")
	never := tenure("10.0.0.2/32", 4)
	never.From, never.CoolsUntil = time.Time{}, time.Time{}
	for _, want := range [][]ledger.Tenure{
		{tenure("10.0.0.0/28", 1<<62)}, {tenure("2001:db8::/64", 0)}, {tenure("0.0.0.0/0", 1)}, {tenure("10.0.0.0/30", 5), never},
	} {
		kv := written("s:a%2Fb", 7, want...)
		got, err := keys.DecodeTenures(kv)
		if diff := cmp.Diff(want, got, readAs...); err != nil || diff != "" {
			t.Errorf("DecodeTenures of %s: %v (-written +read):\n%s", kv.Key, err, diff)
		}
		if got, err := keys.Parse(string(kv.Key)); err != nil || got != (Key{}) {
			t.Errorf("Parse of %s = %+v, %v; want that it concerns nobody", kv.Key, got, err)
		}
	}
}

// The tenures of a block sort by time, and no two transactions have the same key.
func TestTenureKeys_SortByTime(t *testing.T) {
	var keys []string
	for _, head := range []int64{9, 10, 255, 256, 1 << 40} {
		keys = append(keys, string(written("s", head, tenure("10.0.0.0/28", 1)).Key))
	}
	if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
		t.Errorf("the keys %v are not in the order of their revisions", keys)
	}
}

// Any value of etcd is read or refused. A value that was read is written again in the same way.
func FuzzDecodeTenures(f *testing.F) {
	keys := Keys("/ipam/v1")
	kv := written("s", 7, tenure("10.0.0.0/28", 7), tenure("10.0.0.16/28", 8))
	f.Add(string(kv.Key), kv.Value)
	f.Add("/ipam/v1/history/010.000.000.000-24/s/7.0", []byte(`{"v":1,"t":[{"p":"10.0.0.0/28"}]}`))
	f.Add("", []byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		got, err := keys.DecodeTenures(&mvccpb.KeyValue{Key: []byte(key), Value: value})
		if err != nil {
			if !ledger.Unreadable(err) {
				t.Errorf("DecodeTenures(%q, %q) = %v, want a key that cannot be read", key, value, err)
			}
			return
		}
		if len(got) == 0 {
			return
		}
		again, err := keys.DecodeTenures(written(got[0].Space, 0, got...))
		if diff := cmp.Diff(got, again, readAs...); err != nil || diff != "" {
			t.Errorf("%q %q is written as\n%s: %v", key, value, diff, err)
		}
	})
}

// historyOver finds the tenures of a block by any prefix that covers the block, or lies in it.
func TestHistoryOver_FindsTheTenuresOfEachBlock(t *testing.T) {
	keys := Keys("/ipam/v1")
	for _, block := range []string{"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.4/30", "10.0.0.7/32", "2001:db8::/64", "2001:db8::1/128"} {
		p := netip.MustParsePrefix(block)
		key := string(written("s", 7, tenure(block, 1)).Key)
		for bits := range p.Addr().BitLen() + 1 {
			asked := netip.PrefixFrom(p.Addr(), bits).Masked()
			if !slices.ContainsFunc(keys.historyOver(asked), func(s span) bool { return s.from <= key && key < s.end }) {
				t.Errorf("to ask for %s does not find %s at %s", asked, block, key)
			}
		}
	}
}

// Tenants' names make no tenure's record large. The platform chooses the roles of its scopes, usually two.
func TestFarewellOf_BoundsTheSizeOfATenure(t *testing.T) {
	long := tenure("2001:db8::/128", 1)
	long.Holder.Name, long.Holder.Namespace = strings.Repeat("x", 253), strings.Repeat("n", 63)
	long.PoolName, long.Scope = strings.Repeat("p", 253), strings.Repeat("r", 2*(63+1+253)+1)
	long.Class = strings.Repeat("\U0010ffff", 256)
	kv := written("s", 0, long)
	if n := len(kv.Key) + len(kv.Value); n > 3072 {
		t.Errorf("a record of the history takes %d bytes, want 3072 at most", n)
	}
}
