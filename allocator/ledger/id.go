package ledger

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// DomainSpace is the space shared by the pools of one address domain. The
// domain's name is a tenant's own word, so the space is named by its cluster too.
func DomainSpace(cluster ClusterName, domain string) SpaceID {
	return SpaceID(string(cluster) + ":" + url.PathEscape(domain))
}

// ReservationPrefix begins the ID of every reservation, and of no UID.
const ReservationPrefix = "reserved."

// ReservationID names a reservation of a workspace. The sum identifies the request: one that
// is repeated must have the same, and no two different requests may share one. It must not
// contain a dot or a slash.
func ReservationID(cluster ClusterName, sum string) ClaimID {
	return ClaimID(ReservationPrefix + string(cluster) + "." + sum)
}

// ReservedBy is the workspace of a reservation; ok is false for any other ID.
func ReservedBy(id ClaimID) (cluster ClusterName, ok bool) {
	rest, ok := strings.CutPrefix(string(id), ReservationPrefix)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 1 {
		return "", false
	}
	return ClusterName(rest[:dot]), true
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
