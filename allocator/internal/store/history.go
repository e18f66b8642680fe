package store

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go4.org/netipx"
)

type (
	// chapterValue is the value of a key of the history: the tenures of neighbouring blocks that one
	// transaction has ended.
	chapterValue struct {
		V       int           `json:"v"`
		Tenures []tenureValue `json:"t"`
	}
	// tenureValue is the value of one tenure. Times are milliseconds since 1970; 0: none. Its fields have shorter names
	// than those of a block, because there may be far more tenures than blocks.
	tenureValue struct {
		Prefix    netip.Prefix       `json:"p"`
		Revision  int64              `json:"r"`
		Pool      ledger.PoolID      `json:"o"`
		PoolName  string             `json:"q,omitempty"`
		Scope     string             `json:"h,omitempty"`
		Claim     ledger.ClaimID     `json:"c"`
		Cluster   ledger.ClusterName `json:"w"`
		Namespace string             `json:"s,omitempty"`
		Name      string             `json:"n"`
		Class     string             `json:"k,omitempty"`
		Slice     bool               `json:"slice,omitempty"`
		Adopted   bool               `json:"adopted,omitempty"`
		From      int64              `json:"f"`
		Until     int64              `json:"u"`
		Cools     int64              `json:"l,omitempty"`
		Cause     ledger.Cause       `json:"y"`
	}
)

// Farewell is a tenure that has ended, ready to be written.
type Farewell struct {
	Bucket netip.Prefix // the first part of its key
	text   string
}

// FarewellOf encodes a tenure.
func FarewellOf(t ledger.Tenure) *Farewell {
	return &Farewell{Bucket: t.Bucket(), text: encode(tenureValue{
		Prefix: t.Prefix, Revision: t.Revision, Pool: t.Pool, PoolName: t.PoolName, Scope: t.Scope,
		Claim: t.Holder.Claim, Cluster: t.Holder.Cluster, Namespace: t.Holder.Namespace, Name: t.Holder.Name,
		Class: t.Class, Slice: t.Slice, Adopted: t.Adopted,
		From: millis(t.From), Until: millis(t.Until), Cools: millis(t.CoolsUntil), Cause: t.Cause,
	})}
}

// Size is the number of bytes of the farewell.
func (f Farewell) Size() int { return len(f.text) }

// PutFarewells writes farewells into the history. Farewells of one bucket share a key. The same transaction puts the
// head of the space. head is the revision at which that head was put before.
func (k SpaceKeys) PutFarewells(head int64, farewells []*Farewell) (puts []clientv3.Op) {
	of := map[netip.Prefix][]*Farewell{}
	for _, f := range farewells {
		of[f.Bucket] = append(of[f.Bucket], f)
	}
	for _, bucket := range slices.SortedFunc(maps.Keys(of), ledger.ComparePrefixes) {
		puts = append(puts, Put(k.Chapter(bucket, head), chapter(of[bucket])))
	}
	return puts
}

// chapter writes a value of the history.
func chapter(farewells []*Farewell) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"v":%d,"t":[`, valueVersion)
	for i, f := range farewells {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.text)
	}
	b.WriteString("]}")
	return b.String()
}

// DecodeTenures reads a key of the history: the tenures that ended in one transaction.
func (k Keys) DecodeTenures(kv *mvccpb.KeyValue) ([]ledger.Tenure, error) {
	key := string(kv.Key)
	bucket, space, err := k.parseChapter(key)
	if err != nil {
		return nil, &ledger.DamageError{Key: key, Err: err}
	}
	var v chapterValue
	if err := decode(key, kv.Value, &v); err != nil {
		return nil, err
	}
	tenures := make([]ledger.Tenure, 0, len(v.Tenures))
	for _, e := range v.Tenures {
		t := e.tenure(space)
		if !t.Prefix.IsValid() || t.Prefix != t.Prefix.Masked() || t.Bucket() != bucket {
			return nil, &ledger.DamageError{Key: key, Err: fmt.Errorf("%s does not belong there", t.Prefix)}
		}
		if t.Until.IsZero() {
			return nil, &ledger.DamageError{Key: key, Err: errors.New("it has no end")}
		}
		tenures = append(tenures, t)
	}
	return tenures, nil
}

func (v tenureValue) tenure(space ledger.SpaceID) ledger.Tenure {
	return ledger.Tenure{
		Prefix: v.Prefix, Space: space, Revision: v.Revision, Pool: v.Pool, PoolName: v.PoolName, Scope: v.Scope,
		Class: v.Class, Slice: v.Slice, Adopted: v.Adopted,
		Holder: ledger.Holder{Claim: v.Claim, Cluster: v.Cluster, Namespace: v.Namespace, Name: v.Name},
		From:   ofMillis(v.From), Until: ofMillis(v.Until), CoolsUntil: ofMillis(v.Cools), Cause: v.Cause,
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func ofMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// parseChapter reads a key of the history.
func (k Keys) parseChapter(key string) (bucket netip.Prefix, space ledger.SpaceID, err error) {
	parts := strings.Split(strings.TrimPrefix(key, k.History()), "/")
	if len(parts) != 3 || parts[1] == "" {
		return bucket, "", errors.New("it is not <prefix>/<space>/<revision>.<part>")
	}
	if bucket, err = parsePrefix(parts[0]); err != nil {
		return bucket, "", err
	}
	revision, _, _ := strings.Cut(parts[2], ".")
	if _, err := strconv.ParseInt(revision, 16, 64); err != nil {
		return bucket, "", fmt.Errorf("its revision: %w", err)
	}
	return bucket, ledger.SpaceID(parts[1]), nil
}

// span is a range of keys.
type span struct{ from, end string }

func spanOf(prefix string) span { return span{prefix, clientv3.GetPrefixRangeEnd(prefix)} }

// historyOver returns the ranges of the tenures that overlap a prefix: one for each bucket that covers the prefix, and
// one for the buckets inside. A prefix that is not valid stands for all.
func (k Keys) historyOver(p netip.Prefix) []span {
	if !p.IsValid() {
		return []span{spanOf(k.History())}
	}
	var spans []span
	for bits := 0; bits < p.Bits(); bits += ledger.BucketBits {
		spans = append(spans, spanOf(k.HistoryOf(netip.PrefixFrom(p.Addr(), bits).Masked())))
	}
	last := netipx.PrefixLastIP(p)
	end := clientv3.GetPrefixRangeEnd(k.HistoryOf(netip.PrefixFrom(last, last.BitLen())))
	return append(spans, span{k.HistoryOf(p), end})
}

// blocksOver returns the ranges of the blocks of the space that overlap a prefix. The caller knows that no prefix of a
// block in the space is shorter than the argument shortest.
func (k SpaceKeys) blocksOver(p netip.Prefix, shortest int) []span {
	var spans []span
	for bits := shortest; bits < p.Bits(); bits++ {
		key := k.Block(netip.PrefixFrom(p.Addr(), bits).Masked())
		spans = append(spans, span{key, key + "\x00"})
	}
	from, end := k.Within(p)
	return append(spans, span{from, end})
}
