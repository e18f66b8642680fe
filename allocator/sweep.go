package allocator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// defaultPage is how many blocks List returns at once, unless told.
const defaultPage = 10_000

// ErrExpired: the revision that a list began at is compacted. Start it again.
var ErrExpired = errors.New("list has expired; start it again")

// ListOptions say which blocks to list. The zero value: all blocks, from the first.
type ListOptions struct {
	// Pool limits the list to the blocks of one pool.
	Pool PoolID
	// Limit is how many blocks a page has at most. Default 10,000. Few large pages are cheaper
	// than many small ones: etcd counts to the end of the range for each.
	Limit int
	// Continue is Page.Continue of the page before; empty for the first.
	Continue string
}

// Page is a part of a list. All pages of a list show the ledger at one revision.
type Page struct {
	Blocks   []Block
	Revision int64
	// Continue leads to the next page; empty on the last.
	Continue string
}

// position is where a list goes on.
type position struct {
	Revision int64  `json:"r"`
	From     string `json:"k"`
}

// List returns a page of blocks in the order of spaces and addresses. The first
// page shows the ledger as of now, the others the same revision. A page may
// have fewer blocks than Limit, even none, and yet not be the last. ErrExpired:
// more time has passed between pages than etcd keeps history.
func (a *Allocator) List(ctx context.Context, o ListOptions) (Page, error) {
	from, end, err := a.listed(ctx, o.Pool)
	if err != nil {
		return Page{}, err
	}
	at := position{From: from}
	if o.Continue != "" {
		if at, err = parsePosition(o.Continue); err != nil {
			return Page{}, err
		}
	}
	limit := o.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	resp, err := a.page(ctx, at.From, end, at.Revision, int64(limit))
	if is(err, rpctypes.ErrCompacted) {
		return Page{}, ErrExpired
	}
	if err != nil {
		return Page{}, err
	}
	page := Page{Revision: resp.Header.Revision}
	if page.Blocks, err = a.listedBlocks(resp.Kvs, o.Pool); err != nil {
		return Page{}, err
	}
	if resp.More {
		last := string(resp.Kvs[len(resp.Kvs)-1].Key)
		page.Continue = position{Revision: page.Revision, From: last + "\x00"}.String()
	}
	return page, nil
}

// listed returns the range of keys to list.
func (a *Allocator) listed(ctx context.Context, id PoolID) (from, end string, err error) {
	if id == "" {
		return a.keys.spaces(), clientv3.GetPrefixRangeEnd(a.keys.spaces()), nil
	}
	p, err := a.known(ctx, id)
	if err != nil {
		return "", "", err
	}
	from, end = a.keys.within(p.Space, p.CIDR)
	return from, end, nil
}

// listedBlocks reads the blocks among some keys, all or those of one pool.
func (a *Allocator) listedBlocks(kvs []*mvccpb.KeyValue, id PoolID) ([]Block, error) {
	var blocks []Block
	for _, kv := range kvs {
		n, err := a.keys.parse(string(kv.Key))
		if err != nil {
			return nil, err
		}
		if n.kind != blockKey {
			continue
		}
		r, err := decodeRecord(n.space, n.prefix, kv)
		if err != nil {
			return nil, err
		}
		for _, h := range r.holdings {
			if id == "" || h.Pool == id {
				blocks = append(blocks, r.block(h))
			}
		}
	}
	return blocks, nil
}

func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(encode(p)))
}

func parsePosition(s string) (position, error) {
	var p position
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.Revision <= 0 || strings.Contains(p.From, "\n") {
		return position{}, fmt.Errorf("%w: %q does not come from a page", ErrInvalid, s)
	}
	return p, nil
}
