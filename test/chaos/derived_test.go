package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// networkPool returns the derived pool of a network.
func networkPool(network string) ledger.Pool {
	d := &ledger.Derived{Class: "network", Workspace: "tenant", Scope: ledger.Scope{"network": {Kind: "Network", Name: network}}}
	return ledger.Pool{ID: d.ID(), Cluster: "tenant", Name: "network-" + network, Derived: d}
}

// child draws a child pool of a generation. Half of these are derived pools; for those it returns the network, too.
func child(epoch int64, random *rand.Rand) (id ledger.PoolID, network string) {
	name := fmt.Sprintf("%d-%d", epoch, random.IntN(childrenAtOnce))
	if random.IntN(2) == 0 {
		return networkPool(name).ID, name
	}
	return ledger.PoolID("child-" + name), ""
}

// retires draws how a child is retired.
func retires(network string, random *rand.Rand) string {
	if network == "" {
		return "retire"
	}
	return []string{"retire", "close", "close", "hesitate"}[random.IntN(4)]
}

// provision makes the derived pool of a network.
func provision(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
	p, err := a.Derived().Provision(ctx, ledger.Request{Pool: r.Pool, Length: r.Length, Strategy: r.Strategy}, networkPool(r.Network), nil)
	return outcome{Prefix: p.CIDR}, err
}

// begins returns the address space that a request begins; nil if it begins none.
func (r request) begins() *ledger.Derived {
	if r.Of == "" {
		return nil
	}
	return &ledger.Derived{Of: r.Of, Workspace: "tenant", Scope: networkPool(r.Network).Derived.Scope}
}

// rangeOf returns the claim that holds the range of a network.
func rangeOf(network string) ledger.Holder {
	return ledger.Holder{Claim: ledger.ClaimID("range-" + network), Cluster: "tenant", Namespace: "default", Name: "range-" + network}
}

// begin holds the derived pool of a network, and begins to release it. there is false if the pool does not exist.
func begin(ctx context.Context, a *allocator.Allocator, r request, until time.Time) (there bool, err error) {
	d, id, by := a.Derived(), ledger.PoolID(r.Claim), rangeOf(r.Network)
	_, err = d.Hold(ctx, id, by)
	if err == nil {
		_, err = d.Begin(ctx, id, by.Claim, until)
	}
	if errors.Is(err, ledger.ErrUnknownPool) {
		return false, nil
	}
	if errors.Is(err, ledger.ErrPoolInUse) {
		return true, errors.Join(err, d.Drop(ctx, id, by.Claim, time.Time{}))
	}
	return true, err
}

// closeRange releases the range of a network.
func closeRange(ctx context.Context, a *allocator.Allocator, r request) error {
	there, err := begin(ctx, a, r, time.Now().Add(r.Timeout))
	if err == nil && there {
		err = a.Pools().Retire(ctx, ledger.PoolID(r.Claim))
	}
	return err
}

// errLivedIn means that a closed pool is not empty.
var errLivedIn = errors.New("something was bound in a range that is closed")

// hesitate begins to release the range of a network, and opens it again. Nothing may be bound in between. Its outcome
// says nothing of the pool.
func hesitate(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
	until := time.Now().Add(r.Timeout)
	there, err := begin(ctx, a, r, until)
	if err == nil && there {
		err = a.Derived().Confirm(ctx, ledger.PoolID(r.Claim), until)
		if errors.Is(err, ledger.ErrPoolInUse) {
			return outcome{}, errLivedIn
		}
	}
	if err == nil && there {
		err = a.Derived().Reopen(ctx, ledger.PoolID(r.Claim), until)
	}
	if err == nil && there {
		err = a.Derived().Drop(ctx, ledger.PoolID(r.Claim), rangeOf(r.Network).Claim, time.Time{})
	}
	if errors.Is(err, ledger.ErrUnknownPool) || errors.Is(err, ledger.ErrPoolInUse) || errors.Is(err, ledger.ErrChanged) {
		err = nil
	}
	return outcome{Refusal: busy}, err
}
