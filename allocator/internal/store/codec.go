package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

const (
	// valueVersion is the version of the values written. A change that an older program
	// would misread raises it.
	valueVersion = 1
	// frozenVersion is that of a frozen pool: a program that does not know the field would
	// allocate from it.
	frozenVersion = 2
	// disputedVersion is that of a pool whose addresses are in dispute, for the same reason.
	disputedVersion = 3
	// derivedVersion is that of a pool that the system has made, and of one with address spaces: a program that does not
	// know the fields would bind in a pool that is being released, and drop them with its next change.
	derivedVersion = 4
	// reservedVersion is that of a reserved block: a program that does not know the state would
	// look for a claim of the reservation's ID, and free the block.
	reservedVersion = 2
	// timedVersion is that of a block whose state ends by itself: a program that does not know
	// the field would keep the block for ever, or assume that a claim holds it.
	timedVersion = 3
)

// current is how most values begin. Those need not be parsed for their version.
var current = fmt.Appendf(nil, `{"v":%d,`, valueVersion)

// The values of the ledger. V comes first in each; names are short because
// there may be millions.
type (
	ledgerValue struct {
		V  int    `json:"v"`
		ID string `json:"id"`
	}
	originValue struct {
		V      int    `json:"v"`
		Origin string `json:"origin"`
	}
	headValue struct {
		V     int    `json:"v"`
		Count int64  `json:"n"`
		By    string `json:"by,omitempty"` // the transaction that has put it
	}
	fenceValue struct {
		V int `json:"v"`
	}
	claimValue struct {
		V      int            `json:"v"`
		Space  ledger.SpaceID `json:"space"`
		Prefix netip.Prefix   `json:"prefix"`
	}
	poolValue struct {
		V        int                `json:"v"`
		Space    ledger.SpaceID     `json:"space"`
		CIDR     netip.Prefix       `json:"cidr"`
		Excluded []netip.Prefix     `json:"excluded,omitempty"`
		Parent   ledger.PoolID      `json:"parent,omitempty"`
		State    ledger.PoolState   `json:"state"`
		Cluster  ledger.ClusterName `json:"cluster"`
		Name     string             `json:"name"`
		Frozen   bool               `json:"frozen,omitempty"`
		Disputed bool               `json:"disputed,omitempty"`
		At       time.Time          `json:"at,omitzero"`
		Until    time.Time          `json:"until,omitzero"`
		Derived  *derivedValue      `json:"derived,omitempty"`
		Spaces   int                `json:"spaces,omitempty"`
	}
	derivedValue struct {
		Class     string             `json:"class,omitempty"`
		Of        ledger.PoolID      `json:"of,omitempty"`
		Workspace ledger.ClusterName `json:"workspace,omitempty"`
		Scope     ledger.Scope       `json:"scope,omitempty"`
		By        ledger.ClusterName `json:"by,omitempty"`
		Holder    *holderValue       `json:"holder,omitempty"`
		Since     time.Time          `json:"since,omitzero"`
		Releasing time.Time          `json:"releasing,omitzero"`
	}
	holderValue struct {
		Claim     ledger.ClaimID     `json:"claim"`
		Cluster   ledger.ClusterName `json:"cluster"`
		Namespace string             `json:"ns,omitempty"`
		Name      string             `json:"name"`
	}
	blockValue struct {
		V int `json:"v"`
		Holding
		Disputed bool      `json:"disputed,omitempty"`
		Rivals   []Holding `json:"rivals,omitempty"`
	}
	// Holding is the share of one holder in a block. Only a disputed block has several.
	Holding struct {
		Pool      ledger.PoolID        `json:"pool"`
		Claim     ledger.ClaimID       `json:"claim"`
		Cluster   ledger.ClusterName   `json:"cluster"`
		Namespace string               `json:"ns,omitempty"`
		Name      string               `json:"name"`
		Class     string               `json:"class,omitempty"`
		Policy    ledger.ReclaimPolicy `json:"policy"`
		State     ledger.BlockState    `json:"state"`
		Slice     bool                 `json:"slice,omitempty"`
		Shared    bool                 `json:"shared,omitempty"`
		BoundAt   time.Time            `json:"at"`
		Until     time.Time            `json:"until,omitzero"`
		Since     time.Time            `json:"since,omitzero"`
		Adopted   bool                 `json:"adopted,omitempty"`
	}
)

// encode writes a value. It cannot fail: JSON has all that the values hold.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("allocator: encode %T: %v", v, err))
	}
	return string(b)
}

// decode reads the value of a key. It fails with *DamageError or *VersionError.
func decode(key string, value []byte, into any) error {
	return decodeUpTo(valueVersion, key, value, into)
}

// decodeUpTo is decode of a value that may have any version up to that.
func decodeUpTo(version int, key string, value []byte, into any) error {
	if err := checkVersion(version, key, value); err != nil {
		return err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return &ledger.DamageError{Key: key, Err: err}
	}
	return nil
}

func checkVersion(latest int, key string, value []byte) error {
	if bytes.HasPrefix(value, current) {
		return nil
	}
	var v struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return &ledger.DamageError{Key: key, Err: err}
	}
	if v.V < valueVersion || v.V > latest {
		return &ledger.VersionError{Key: key, Version: v.V}
	}
	return nil
}

// EncodeHead writes the head of a space, as put by a transaction; empty: by one that has no name.
func EncodeHead(count int64, by string) string {
	var room roomy
	return printer(room[:0]).number(`{"v":`, valueVersion).number(`,"n":`, count).optional(`,"by":`, by).end()
}

func decodeHead(key string, value []byte) (count int64, err error) {
	var v headValue
	err = decode(key, value, &v)
	return v.Count, err
}

// EncodeFence writes the value of a fence. Only its revision matters.
func EncodeFence() string {
	return encode(fenceValue{V: valueVersion})
}

// EncodeClaim writes where the block of a claim is.
func EncodeClaim(s ledger.SpaceID, p netip.Prefix) string {
	var room roomy
	return printer(room[:0]).number(`{"v":`, valueVersion).text(`,"space":`, string(s)).prefix(`,"prefix":`, p).end()
}

// DecodeClaim reads where the block of a claim is.
func DecodeClaim(kv *mvccpb.KeyValue) (ledger.SpaceID, netip.Prefix, error) {
	var v claimValue
	err := decode(string(kv.Key), kv.Value, &v)
	return v.Space, v.Prefix, err
}

// EncodePool writes the record of a pool.
func EncodePool(p ledger.Pool) string {
	v := poolValue{
		V: valueVersion, Space: p.Space, CIDR: p.CIDR, Excluded: p.Excluded, Parent: p.Parent,
		State: p.State, Cluster: p.Cluster, Name: p.Name, Frozen: p.Frozen, Disputed: p.Disputed, At: p.RegisteredAt, Until: p.CoolsUntil,
		Derived: derivedOf(p.Derived), Spaces: p.Spaces,
	}
	switch {
	case v.Derived != nil || v.Spaces > 0:
		v.V = derivedVersion
	case v.Disputed:
		v.V = disputedVersion
	case v.Frozen:
		v.V = frozenVersion
	}
	return encode(v)
}

// DecodePool reads the record of a pool.
func DecodePool(key string, id ledger.PoolID, value []byte) (ledger.Pool, error) {
	var v poolValue
	if err := decodeUpTo(derivedVersion, key, value, &v); err != nil {
		return ledger.Pool{}, err
	}
	return ledger.Pool{
		ID: id, Cluster: v.Cluster, Name: v.Name, Space: v.Space, CIDR: v.CIDR,
		Excluded: v.Excluded, Parent: v.Parent, State: v.State, Frozen: v.Frozen, Disputed: v.Disputed, RegisteredAt: v.At, CoolsUntil: v.Until,
		Derived: v.Derived.derived(), Spaces: v.Spaces,
	}, nil
}

func derivedOf(d *ledger.Derived) *derivedValue {
	if d == nil {
		return nil
	}
	v := &derivedValue{Class: d.Class, Of: d.Of, Workspace: d.Workspace, Scope: d.Scope, By: d.By, Since: d.HeldSince, Releasing: d.Releasing}
	if d.Holder.Claim != "" {
		v.Holder = (*holderValue)(&d.Holder)
	}
	return v
}

func (v *derivedValue) derived() *ledger.Derived {
	if v == nil {
		return nil
	}
	d := &ledger.Derived{Class: v.Class, Of: v.Of, Workspace: v.Workspace, Scope: v.Scope, By: v.By, HeldSince: v.Since, Releasing: v.Releasing}
	if v.Holder != nil {
		d.Holder = ledger.Holder(*v.Holder)
	}
	return d
}

// Record is a block key of the ledger.
type Record struct {
	Space    ledger.SpaceID
	Prefix   netip.Prefix
	Revision int64
	Disputed bool
	Holdings []Holding // the first is the oldest
}

// Encode writes the value of the block, in the oldest version that can say it.
func (r Record) Encode() string {
	if len(r.Holdings) == 1 && !r.Disputed {
		return printRecord(r.version(), r.Holdings[0])
	}
	return encode(&blockValue{V: r.version(), Holding: r.Holdings[0], Disputed: r.Disputed, Rivals: r.Holdings[1:]})
}

func (r Record) version() int {
	switch {
	case slices.ContainsFunc(r.Holdings, func(h Holding) bool { return !h.Until.IsZero() }):
		return timedVersion
	case slices.ContainsFunc(r.Holdings, func(h Holding) bool { return h.State == ledger.Reserved }):
		return reservedVersion
	}
	return valueVersion
}

// DecodeSole reads a block that has one holder without an allocation for it: a list of millions makes so much less garbage.
// ok is false for any other key or value, which DecodeRecord may still read.
func DecodeSole(k Keys, kv *mvccpb.KeyValue) (b ledger.Block, ok bool) {
	key, err := k.Parse(string(kv.Key))
	if err != nil || key.Kind != BlockKey {
		return ledger.Block{}, false
	}
	h, ok := scanRecord(kv.Value)
	if !ok {
		return ledger.Block{}, false
	}
	return Record{Space: key.Space, Prefix: key.Prefix, Revision: kv.ModRevision}.Block(h), true
}

// DecodeRecord reads the block at a prefix of a space.
func DecodeRecord(s ledger.SpaceID, p netip.Prefix, kv *mvccpb.KeyValue) (Record, error) {
	r := Record{Space: s, Prefix: p, Revision: kv.ModRevision}
	if h, ok := scanRecord(kv.Value); ok {
		r.Holdings = []Holding{h}
		return r, nil
	}
	var v blockValue
	if err := decodeUpTo(timedVersion, string(kv.Key), kv.Value, &v); err != nil {
		return Record{}, err
	}
	r.Disputed, r.Holdings = v.Disputed, append([]Holding{v.Holding}, v.Rivals...)
	return r, nil
}

// Of is the index of a claim's holding; -1 if it has none.
func (r Record) Of(id ledger.ClaimID) int {
	return slices.IndexFunc(r.Holdings, func(h Holding) bool { return h.Claim == id })
}

// Block is the block as one holder has it.
func (r Record) Block(h Holding) ledger.Block {
	b := ledger.Block{
		Prefix: r.Prefix, Pool: h.Pool, Space: r.Space,
		Holder: ledger.Holder{Claim: h.Claim, Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name},
		Class:  h.Class, Policy: h.Policy, State: h.State, Shared: h.Shared, BoundAt: h.BoundAt, Until: h.Until, Slice: h.Slice, Revision: r.Revision,
		Since: h.Since, Adopted: h.Adopted,
	}
	if r.Disputed {
		b.State = ledger.Disputed
	}
	return b
}

// Stamped is a time as the ledger keeps it: UTC, to the millisecond.
func Stamped(now time.Time) time.Time { return now.UTC().Truncate(time.Millisecond) }
