package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

const (
	// valueVersion is the version of all values. A change that another program would misread raises it.
	valueVersion = 1
)

// current is the beginning of most values. A value that begins so need not be parsed for its version.
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
		V     int   `json:"v"`
		Count int64 `json:"n"`
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
		At       time.Time          `json:"at,omitzero"`
		Until    time.Time          `json:"until,omitzero"`
		Derived  *derivedValue      `json:"derived,omitempty"`
	}
	addressSpaceValue struct {
		V         int                `json:"v"`
		Workspace ledger.ClusterName `json:"workspace,omitempty"`
		Scope     ledger.Scope       `json:"scope,omitempty"`
	}
	derivedValue struct {
		Class     string             `json:"class,omitempty"`
		Workspace ledger.ClusterName `json:"workspace,omitempty"`
		Scope     ledger.Scope       `json:"scope,omitempty"`
		By        ledger.ClusterName `json:"by,omitempty"`
		Holder    *holderValue       `json:"holder,omitempty"`
		Since     time.Time          `json:"since,omitzero"`
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
	}
	// Holding is a block as its holder has it.
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
	if err := checkVersion(key, value); err != nil {
		return err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return &ledger.DamageError{Key: key, Err: err}
	}
	return nil
}

func checkVersion(key string, value []byte) error {
	if bytes.HasPrefix(value, current) {
		return nil
	}
	var v struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return &ledger.DamageError{Key: key, Err: err}
	}
	if v.V != valueVersion {
		return &ledger.VersionError{Key: key, Version: v.V}
	}
	return nil
}

// EncodeHead writes the head of a space.
func EncodeHead(count int64) string {
	var room roomy
	return printer(room[:0]).number(`{"v":`, valueVersion).number(`,"n":`, count).end()
}

func decodeHead(key string, value []byte) (count int64, err error) {
	var v headValue
	err = decode(key, value, &v)
	return v.Count, err
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

// EncodePool writes the record of a pool. The record of an address space says only for whom it is.
func EncodePool(p ledger.Pool) string {
	if ledger.IsAddressSpace(p.ID) {
		return encode(addressSpaceValue{V: valueVersion, Workspace: p.Derived.Workspace, Scope: p.Derived.Scope})
	}
	v := poolValue{
		V: valueVersion, Space: p.Space, CIDR: p.CIDR, Excluded: p.Excluded, Parent: p.Parent,
		State: p.State, Cluster: p.Cluster, Name: p.Name, Frozen: p.Frozen, At: p.RegisteredAt, Until: p.CoolsUntil,
		Derived: derivedOf(p.Derived),
	}
	return encode(v)
}

// decodeAddressSpace reads for whom an address space is.
func decodeAddressSpace(key string, value []byte) (of ledger.Derived, err error) {
	var v addressSpaceValue
	err = decode(key, value, &v)
	return ledger.Derived{Workspace: v.Workspace, Scope: v.Scope}, err
}

// DecodePool reads the record of a pool.
func DecodePool(key string, id ledger.PoolID, value []byte) (ledger.Pool, error) {
	var v poolValue
	if err := decode(key, value, &v); err != nil {
		return ledger.Pool{}, err
	}
	return ledger.Pool{
		ID: id, Cluster: v.Cluster, Name: v.Name, Space: v.Space, CIDR: v.CIDR,
		Excluded: v.Excluded, Parent: v.Parent, State: v.State, Frozen: v.Frozen, RegisteredAt: v.At, CoolsUntil: v.Until,
		Derived: v.Derived.derived(),
	}, nil
}

func derivedOf(d *ledger.Derived) *derivedValue {
	if d == nil {
		return nil
	}
	v := &derivedValue{Class: d.Class, Workspace: d.Workspace, Scope: d.Scope, By: d.By, Since: d.HeldSince}
	if d.Holder.Claim != "" {
		v.Holder = (*holderValue)(&d.Holder)
	}
	return v
}

func (v *derivedValue) derived() *ledger.Derived {
	if v == nil {
		return nil
	}
	d := &ledger.Derived{Class: v.Class, Workspace: v.Workspace, Scope: v.Scope, By: v.By, HeldSince: v.Since}
	if v.Holder != nil {
		d.Holder = ledger.Holder(*v.Holder)
	}
	return d
}

// Record is the ledger's content at the key of a block.
type Record struct {
	Space    ledger.SpaceID
	Prefix   netip.Prefix
	Revision int64
	Held     *Holding // nil: the block is free
}

// Encode writes the value of the block.
func (r Record) Encode() string { return printRecord(*r.Held) }

// DecodeSole reads a block, and allocates no memory for its holder: that saves much garbage in a list of millions. ok
// is false for any other key or value, which DecodeRecord may still read.
func DecodeSole(k Keys, kv *mvccpb.KeyValue) (b ledger.Block, ok bool) {
	key, err := k.Parse(string(kv.Key))
	if err != nil || key.Kind != BlockKey {
		return ledger.Block{}, false
	}
	h, ok := scanRecord(kv.Value)
	if !ok {
		return ledger.Block{}, false
	}
	return Record{Space: key.Space, Prefix: key.Prefix, Revision: kv.ModRevision, Held: &h}.Block(), true
}

// DecodeRecord reads the block at a prefix of a space.
func DecodeRecord(s ledger.SpaceID, p netip.Prefix, kv *mvccpb.KeyValue) (Record, error) {
	r := Record{Space: s, Prefix: p, Revision: kv.ModRevision}
	if h, ok := scanRecord(kv.Value); ok {
		r.Held = &h
		return r, nil
	}
	var v blockValue
	if err := decode(string(kv.Key), kv.Value, &v); err != nil {
		return Record{}, err
	}
	r.Held = &v.Holding
	return r, nil
}

// Of reports whether a claim holds the block.
func (r Record) Of(id ledger.ClaimID) bool { return r.Held != nil && r.Held.Claim == id }

// Block returns the block of the record; without a holder, if it is free.
func (r Record) Block() ledger.Block {
	h := r.Held
	if h == nil {
		return ledger.Block{Space: r.Space, Prefix: r.Prefix, Revision: r.Revision}
	}
	return ledger.Block{
		Prefix: r.Prefix, Pool: h.Pool, Space: r.Space,
		Holder: ledger.Holder{Claim: h.Claim, Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name},
		Class:  h.Class, Policy: h.Policy, State: h.State, BoundAt: h.BoundAt, Until: h.Until, Slice: h.Slice,
		Revision: r.Revision, Since: h.Since, Adopted: h.Adopted,
	}
}

// Stamped is a time as the ledger keeps it: UTC, to the millisecond.
func Stamped(now time.Time) time.Time { return now.UTC().Truncate(time.Millisecond) }
