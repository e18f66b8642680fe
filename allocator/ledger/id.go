package ledger

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// DomainSpace is the space shared by the pools of one address domain. The domain's name is a tenant's own word, so the
// name of the space has the tenant's cluster, too.
func DomainSpace(cluster ClusterName, domain string) SpaceID {
	return SpaceID(string(cluster) + ":" + url.PathEscape(domain))
}

// IsAllocationID reports whether the ID of a holder was made for a CREATE: a UUID of version 8, while the UIDs of
// Kubernetes have version 4.
func IsAllocationID(id ClaimID) bool {
	return len(id) == 36 && id[8] == '-' && id[13] == '-' && id[14] == '8' && id[18] == '-' && id[23] == '-'
}

// CheckID refuses an ID that cannot be part of a key.
func CheckID[ID ~string](what string, id ID) error {
	if id == "" || strings.ContainsAny(string(id), "/\x00") {
		return fmt.Errorf("%w: %s %q must not be empty or contain a slash", ErrInvalid, what, id)
	}
	return nil
}

// ComparePrefixes orders by address, and a prefix before those inside it.
func ComparePrefixes(a, b netip.Prefix) int {
	if by := a.Addr().Compare(b.Addr()); by != 0 {
		return by
	}
	return cmp.Compare(a.Bits(), b.Bits())
}
