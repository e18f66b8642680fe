package space

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Account names a sum that a limit bounds: the addresses that a workspace holds of a pool, or by a class.
type Account struct {
	pool    ledger.PoolID // empty: by the class, of any pool
	Class   string
	Cluster ledger.ClusterName
}

// PoolAccount returns the account of the request's workspace with the request's pool.
func PoolAccount(r ledger.Request) Account {
	return Account{pool: r.Pool, Cluster: r.Holder.Tenant()}
}

// ClassAccount returns the account of the request's workspace with the request's class.
func ClassAccount(r ledger.Request) Account {
	return Account{Class: r.Class, Cluster: r.Holder.Tenant()}
}

// ClassLimited reports whether the request's class has a limit.
func ClassLimited(r ledger.Request) bool { return r.Limits.Class != nil && r.Class != "" }

// limitedBy returns the accounts whose limits bound a request.
func limitedBy(r ledger.Request) (all []Account) {
	if r.Limits.Pool != nil {
		all = append(all, PoolAccount(r))
	}
	if ClassLimited(r) {
		all = append(all, ClassAccount(r))
	}
	return all
}
