package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// raw writes transactions with operations and sizes like those of the allocator, below a prefix that the allocator
// does not watch. It is not safe for concurrent use.
type raw struct {
	*stage
	name     string
	pattern  pattern
	revision int64 // of the head
	blocks   uint64
}

// pattern is what the allocator has written for a block.
type pattern struct {
	claim               string
	block, claims, head string // values
}

// newRaw lets the allocator bind a block, and learns from that what to write.
func (s *stage) newRaw(ctx context.Context, name string) (*raw, error) {
	req := s.request()
	b, err := s.Bind(ctx, req)
	if err != nil {
		return nil, err
	}
	p := pattern{claim: string(req.Holder.Claim)}
	for key, value := range map[string]*string{
		"/ipam/v1/spaces/pool/blocks/" + written(b.Prefix): &p.block,
		"/ipam/v1/claims/" + p.claim:                       &p.claims,
		"/ipam/v1/spaces/pool/head":                        &p.head,
	} {
		resp, err := s.client.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if len(resp.Kvs) != 1 {
			return nil, fmt.Errorf("the ledger has no key %s: follow the allocator in how keys are written", key)
		}
		*value = string(resp.Kvs[0].Value)
	}
	return &raw{stage: s, name: "/raw/v1/spaces/" + name, pattern: p}, s.Release(ctx, ledger.ClaimID(p.claim))
}

// commit binds a group in one transaction.
func (r *raw) commit(ctx context.Context, group int) error {
	head := r.name + "/head"
	ifs := append(make([]clientv3.Cmp, 0, 2*group+2), clientv3.Compare(clientv3.ModRevision(head), "=", r.revision))
	if r.revision > 0 {
		ifs = append(ifs, clientv3.Compare(clientv3.Value(head), "=", r.pattern.head))
	}
	then := make([]clientv3.Op, 0, 2*group+1)
	for range group {
		claim := uid(1<<62 + r.claims.Add(1))
		key, block := "/raw/v1/claims/"+claim, r.name+"/blocks/"+r.next()
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(block), "=", 0), clientv3.Compare(clientv3.ModRevision(key), "=", 0))
		then = append(then,
			clientv3.OpPut(block, strings.Replace(r.pattern.block, r.pattern.claim, claim, 1)),
			clientv3.OpPut(key, r.pattern.claims))
	}
	then = append(then, clientv3.OpPut(head, r.pattern.head))
	resp, err := r.client.Txn(ctx).If(ifs...).Then(then...).Else(clientv3.OpGet(head)).Commit()
	if err == nil && !resp.Succeeded {
		err = errors.New("a raw transaction has failed its comparisons")
	}
	if err == nil {
		r.revision = resp.Header.Revision
	}
	return err
}

// next returns the prefix of the next block, as it is written in its key.
func (r *raw) next() string {
	r.blocks++
	f := r.family
	addr := f.window.Addr().AsSlice()
	wide := make([]byte, 8)
	binary.BigEndian.PutUint64(wide, r.blocks)
	if f.length == 32 {
		copy(addr[1:], wide[5:])
	} else {
		copy(addr[4:8], wide[4:])
	}
	a, _ := netip.AddrFromSlice(bytes.Clone(addr))
	return written(netip.PrefixFrom(a, f.length))
}

// written returns a prefix in the form that keys have.
func written(p netip.Prefix) string {
	if !p.Addr().Is4() {
		return fmt.Sprintf("%s-%03d", p.Addr().StringExpanded(), p.Bits())
	}
	o := p.Addr().As4()
	return fmt.Sprintf("%03d.%03d.%03d.%03d-%02d", o[0], o[1], o[2], o[3], p.Bits())
}
