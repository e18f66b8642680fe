package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// wanted is a Request, by Bind or by an adoption.
type wanted struct {
	ledger.Request
	adopts bool // an adoption of a published record: exclusions and a freeze do not count
}

// checkRequest refuses a request that no pool could serve.
func checkRequest(r ledger.Request) error {
	if err := errors.Join(
		ledger.CheckID("pool", r.Pool), ledger.CheckID("claim", r.Holder.Claim), ledger.CheckID("cluster", r.Holder.Cluster),
	); err != nil {
		return err
	}
	if r.Begins != nil && r.Begins.ID() != r.Pool {
		return fmt.Errorf("%w: %s is not the address space that the request begins", ledger.ErrInvalid, r.Pool)
	}
	if r.Length < 0 {
		return fmt.Errorf("%w: prefix length %d is negative", ledger.ErrInvalid, r.Length)
	}
	if r.Exact.IsValid() && r.Exact != r.Exact.Masked() {
		return fmt.Errorf("%w: %s has host bits; write %s", ledger.ErrInvalid, r.Exact, r.Exact.Masked())
	}
	return nil
}

// holding returns the holding of the block that the request gets.
func (r wanted) holding(now time.Time) store.Holding {
	return store.Holding{
		Pool: r.Pool, Claim: r.Holder.Claim, Cluster: r.Holder.Cluster, Namespace: r.Holder.Namespace, Name: r.Holder.Name,
		Class: r.Class, Policy: cmp.Or(r.Policy, ledger.Delete), State: ledger.Bound, Slice: r.Slice,
		BoundAt: store.Stamped(now), Adopted: r.adopts,
	}
}
