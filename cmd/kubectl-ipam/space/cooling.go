package space

import (
	"math/big"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// Cooling is how many addresses of a pool cool after their release.
func Cooling(capacity *ipamv1alpha1.PoolCapacity) *big.Int {
	cooling := new(big.Int)
	if capacity != nil && capacity.Cooling != "" {
		if n, ok := new(big.Int).SetString(capacity.Cooling, 10); ok {
			cooling = n
		}
	}
	return cooling
}

// CoolsUntil says how much of a pool cools, and when the next of it is free.
func CoolsUntil(pool *ipamv1alpha1.IPPool) string {
	said := plural.Of(pool.Status.Capacity.Cooling, "address of the pool cools after its release", "addresses of the pool cool after their release")
	if next := pool.Status.NextRelease; next != nil {
		said += ", the next of them until " + next.UTC().Format(time.RFC3339)
	}
	return said
}
