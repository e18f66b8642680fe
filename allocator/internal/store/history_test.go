package store

import (
	"bytes"
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
		Prefix: netip.MustParsePrefix(p), Space: "s:a%2Fb", Pool: "p", Class: "standard", Slice: true, Disputed: true, Adopted: true,
		Holder: ledger.Holder{Claim: "c", Cluster: "k", Namespace: "n", Name: "web"}, From: time.UnixMilli(1).UTC(), Until: time.UnixMilli(2).UTC(),
		CoolsUntil: time.UnixMilli(3).UTC(), Cause: ledger.CauseReleased, Revision: revision,
	}
}

func TestTenure_IsReadAsItIsWritten(t *testing.T) {
	keys := Keys("/ipam/v1")
	for _, want := range []ledger.Tenure{tenure("10.0.0.0/28", 1<<62), tenure("2001:db8::/64", 0)} {
		op := keys.PutTenure(want)
		got, err := keys.DecodeTenure(&mvccpb.KeyValue{Key: op.KeyBytes(), Value: op.ValueBytes()})
		if diff := cmp.Diff(want, got, readAs...); err != nil || diff != "" {
			t.Errorf("DecodeTenure of %s: %v (-written +read):\n%s", op.KeyBytes(), err, diff)
		}
		if got, err := keys.Parse(string(op.KeyBytes())); err != nil || got != (Key{}) {
			t.Errorf("Parse of %s = %+v, %v; want that it concerns nobody", op.KeyBytes(), got, err)
		}
	}
}

// The tenures of a block sort by time.
func TestTenure_Sorts(t *testing.T) {
	var written []string
	for _, revision := range []int64{9, 10, 255, 256, 1 << 40} {
		written = append(written, Keys("/ipam/v1").Tenure(tenure("10.0.0.0/28", revision)))
	}
	if !slices.IsSorted(written) {
		t.Errorf("the keys %v are not in the order of their revisions", written)
	}
}

// Whatever lies in etcd is read or refused, and what is read is written in the same way.
func FuzzDecodeTenure(f *testing.F) {
	keys := Keys("/ipam/v1")
	op := keys.PutTenure(tenure("10.0.0.0/28", 7))
	f.Add(string(op.KeyBytes()), op.ValueBytes())
	f.Add("/ipam/v1/history/010.000.000.000-28/s/7", []byte(`{"v":1}`))
	f.Add("", []byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		got, err := keys.DecodeTenure(&mvccpb.KeyValue{Key: []byte(key), Value: value})
		if err != nil {
			if !ledger.Unreadable(err) {
				t.Errorf("DecodeTenure(%q, %q) = %v, want a key that cannot be read", key, value, err)
			}
			return
		}
		op := keys.PutTenure(got)
		again, err := keys.DecodeTenure(&mvccpb.KeyValue{Key: op.KeyBytes(), Value: op.ValueBytes()})
		if diff := cmp.Diff(got, again, readAs...); err != nil || diff != "" {
			t.Errorf("%q %q is written as %q %q: %v\n%s", key, value, op.KeyBytes(), op.ValueBytes(), err, diff)
		}
	})
}

// Names of tenants make no record large.
func TestBounds_OfATenure(t *testing.T) {
	long := tenure("2001:db8::/128", 1)
	long.Holder.Name, long.Holder.Namespace = strings.Repeat("x", 253), strings.Repeat("n", 63)
	long.Class = strings.Repeat("\U0010ffff", 256)
	op := Keys("/ipam/v1").PutTenure(long)
	if n := len(bytes.Join([][]byte{op.KeyBytes(), op.ValueBytes()}, nil)); n > 2048 {
		t.Errorf("a record of the history takes %d bytes, want 2048 at most", n)
	}
}
