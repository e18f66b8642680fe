package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go4.org/netipx"
)

// tenureValue is what the ledger keeps of a tenure that has ended, beside its key.
type tenureValue struct {
	V         int                `json:"v"`
	Pool      ledger.PoolID      `json:"pool"`
	Claim     ledger.ClaimID     `json:"claim"`
	Cluster   ledger.ClusterName `json:"cluster"`
	Namespace string             `json:"ns,omitempty"`
	Name      string             `json:"name"`
	Class     string             `json:"class,omitempty"`
	Slice     bool               `json:"slice,omitempty"`
	Adopted   bool               `json:"adopted,omitempty"`
	Disputed  bool               `json:"disputed,omitempty"`
	From      time.Time          `json:"from"`
	Until     time.Time          `json:"until"`
	Cools     time.Time          `json:"cools,omitzero"`
	Cause     ledger.Cause       `json:"cause"`
}

// PutTenure writes a tenure that has ended into the history.
func (k Keys) PutTenure(t ledger.Tenure) clientv3.Op {
	return Put(k.Tenure(t), encode(tenureValue{
		V: valueVersion, Pool: t.Pool, Claim: t.Holder.Claim, Cluster: t.Holder.Cluster, Namespace: t.Holder.Namespace,
		Name: t.Holder.Name, Class: t.Class, Slice: t.Slice, Adopted: t.Adopted, Disputed: t.Disputed,
		From: t.From, Until: t.Until, Cools: t.CoolsUntil, Cause: t.Cause,
	}))
}

// DecodeTenure reads a key of the history.
func (k Keys) DecodeTenure(kv *mvccpb.KeyValue) (ledger.Tenure, error) {
	key := string(kv.Key)
	t, err := k.parseTenure(key)
	if err != nil {
		return ledger.Tenure{}, &ledger.DamageError{Key: key, Err: err}
	}
	var v tenureValue
	if err := decode(key, kv.Value, &v); err != nil {
		return ledger.Tenure{}, err
	}
	if v.Until.IsZero() {
		return ledger.Tenure{}, &ledger.DamageError{Key: key, Err: errors.New("it has no end")}
	}
	t.Pool, t.Class, t.Slice, t.Adopted, t.Disputed = v.Pool, v.Class, v.Slice, v.Adopted, v.Disputed
	t.Holder = ledger.Holder{Claim: v.Claim, Cluster: v.Cluster, Namespace: v.Namespace, Name: v.Name}
	t.From, t.Until, t.CoolsUntil, t.Cause = v.From, v.Until, v.Cools, v.Cause
	return t, nil
}

// parseTenure reads what the key itself says.
func (k Keys) parseTenure(key string) (ledger.Tenure, error) {
	parts := strings.Split(strings.TrimPrefix(key, k.History()), "/")
	if len(parts) != 3 || parts[1] == "" {
		return ledger.Tenure{}, errors.New("it is not <prefix>/<space>/<revision>")
	}
	p, err := parsePrefix(parts[0])
	if err != nil {
		return ledger.Tenure{}, err
	}
	revision, err := strconv.ParseInt(parts[2], 16, 64)
	if err != nil {
		return ledger.Tenure{}, fmt.Errorf("its revision: %w", err)
	}
	return ledger.Tenure{Prefix: p, Space: ledger.SpaceID(parts[1]), Revision: revision}, nil
}

// span is a range of keys.
type span struct{ from, end string }

func spanOf(prefix string) span { return span{prefix, clientv3.GetPrefixRangeEnd(prefix)} }

// historyOver are the ranges of the tenures that have addresses in common with a prefix: one
// for each prefix that covers it, and one for it and all inside. Not valid: of all.
func (k Keys) historyOver(p netip.Prefix) []span {
	if !p.IsValid() {
		return []span{spanOf(k.History())}
	}
	var spans []span
	for bits := range p.Bits() {
		spans = append(spans, spanOf(k.HistoryOf(netip.PrefixFrom(p.Addr(), bits).Masked())))
	}
	last := netipx.PrefixLastIP(p)
	return append(spans, span{k.HistoryOf(p), clientv3.GetPrefixRangeEnd(k.HistoryOf(netip.PrefixFrom(last, last.BitLen())))})
}

// blocksOver are those of the blocks of the space, no prefix shorter than that.
func (k SpaceKeys) blocksOver(p netip.Prefix, shortest int) []span {
	var spans []span
	for bits := shortest; bits < p.Bits(); bits++ {
		key := k.Block(netip.PrefixFrom(p.Addr(), bits).Masked())
		spans = append(spans, span{key, key + "\x00"})
	}
	from, end := k.Within(p)
	return append(spans, span{from, end})
}

// HistoryKeys yields the keys of the history, page by page. An error is the last that it yields.
// ErrExpired: it took longer than etcd keeps its revisions.
func (s *Store) HistoryKeys(ctx context.Context) iter.Seq2[*mvccpb.KeyValue, error] {
	all := spanOf(s.Keys.History())
	return s.NewPager(0).Keys(ctx, all.from, all.end)
}
