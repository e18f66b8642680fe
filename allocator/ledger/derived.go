package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// ScopeRef names an object for which address space is told apart. References are compared, and never resolved.
type ScopeRef struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// Scope has a reference for each role, such as "network". It is not changed once it is in use.
type Scope map[string]ScopeRef

// Only returns the part of the scope that has these roles.
func (s Scope) Only(roles []string) Scope {
	part := Scope{}
	for _, role := range roles {
		if ref, ok := s[role]; ok {
			part[role] = ref
		}
	}
	return part
}

// String lists the objects by the names of their roles, such as location=ams,network=vpc-1.
func (s Scope) String() string {
	parts := make([]string, 0, len(s))
	for _, role := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, role+"="+s[role].Name)
	}
	return strings.Join(parts, ",")
}

// Derived says for whom the system has made a pool.
type Derived struct {
	// Class is the class by whose poolPer the pool was made. Empty: the pool is an address space of the pool Of.
	Class string
	// Of is the pool whose addresses are given out once in each scope. Empty: Class is set.
	Of PoolID
	// Workspace is the one that the pool, or the address space, is for. Empty: it is for all workspaces.
	Workspace ClusterName
	// Scope has the references by which the pool differs from other pools of its class, or address spaces of its pool.
	Scope Scope
	// By is the workspace whose claim was the first to need a pool for all workspaces. Empty: the pool is for one
	// workspace, or that workspace is not known. The ID of the pool does not depend on By.
	By ClusterName
	// Holder is the range claim that holds the pool. Zero: none does.
	Holder Holder
	// HeldSince is when Holder came, by the clock of the Allocator that wrote it, to the millisecond.
	HeldSince time.Time
}

// Closing says that a pool is closed: it is about to be retired, or to be opened again. No block is bound in it
// meanwhile. It is not in the ledger, but only in the memory of the process that has the office. The zero value: the
// pool is open.
type Closing struct {
	// Until is a time by which the DELETE of the range claim has succeeded or failed.
	Until time.Time
	// By is the claim that holds the pool; empty: none does.
	By ClaimID
}

// HeldBy returns a copy of d with this holder and this time. If d has both already, HeldBy returns d itself.
func (d *Derived) HeldBy(h Holder, since time.Time) *Derived {
	if d.Holder == h && d.HeldSince.Equal(since) {
		return d
	}
	next := *d
	next.Holder, next.HeldSince = h, since
	return &next
}

// Above returns the pool that this one was carved from, or whose address space it is; empty: it is a root pool.
func (p Pool) Above() PoolID {
	if p.Parent == "" && p.Derived != nil {
		return p.Derived.Of
	}
	return p.Parent
}

// Kept reports whether a claim holds the pool, and is not about to be deleted.
func (p Pool) Kept() bool { return p.Derived != nil && p.Derived.Holder.Claim != "" && !p.Closed() }

// Closed reports whether the pool is about to be retired, or to be opened again.
func (p Pool) Closed() bool { return !p.Closing.Until.IsZero() }

// CountsFor returns a second workspace whose number of pools the pool adds to, besides the workspace that it is in. For
// an address space it is the workspace that the address space is for. For a pool for all workspaces it is the workspace
// that was the first to need the pool. Empty: there is none.
func (p Pool) CountsFor() ClusterName {
	switch {
	case p.Derived == nil, p.Derived.Workspace == p.Cluster, p.Derived.By == p.Cluster:
		return ""
	case p.Derived.Of != "", p.Derived.Workspace.Cluster() == p.Cluster:
		return p.Derived.Workspace
	}
	return p.Derived.By
}

// derivedPrefix begins the IDs of derived pools, and no UID.
const derivedPrefix = "derived."

// DerivedID returns the ID of the pool that a class has for a scope. The roles of the scope are those of the class's
// poolPer. The workspace is empty if all workspaces share the pool.
func DerivedID(class string, workspace ClusterName, scope Scope) PoolID {
	return PoolID(derivedPrefix + digest(class, workspace, scope))
}

// AddressSpaceID returns the ID of an address space of a pool: the pool's ID, a dot, and a digest.
func AddressSpaceID(of PoolID, workspace ClusterName, scope Scope) PoolID {
	return of + PoolID("."+digest(string(of), workspace, scope))
}

// ID returns the ID of the pool that d describes.
func (d Derived) ID() PoolID {
	if d.Class == "" {
		return AddressSpaceID(d.Of, d.Workspace, d.Scope)
	}
	return DerivedID(d.Class, d.Workspace, d.Scope)
}

// IsDerived reports whether an ID is the ID of a derived pool. The holder of such a pool's block in the parent has the
// same ID.
func IsDerived[ID ~string](id ID) bool {
	return strings.HasPrefix(string(id), derivedPrefix) && !IsAddressSpace(PoolID(id))
}

// AddressSpaceOf returns the pool to which the ID of an address space belongs; ok is false for any other ID.
func AddressSpaceOf(id PoolID) (of PoolID, ok bool) {
	dot := len(id) - hex.EncodedLen(sha256.Size) - 1
	if dot <= 0 || id[dot] != '.' || id[:dot+1] == derivedPrefix {
		return "", false
	}
	return id[:dot], true
}

// IsAddressSpace reports whether an ID is that of an address space of a pool.
func IsAddressSpace(id PoolID) bool {
	_, ok := AddressSpaceOf(id)
	return ok
}

// Digest returns the digest in the ID of a pool that the system has made; empty for any other pool.
func Digest(id PoolID) string {
	if !IsDerived(id) && !IsAddressSpace(id) {
		return ""
	}
	return string(id[strings.LastIndexByte(string(id), '.')+1:])
}

// In returns the address space of a pool that d describes. It has its own ID, Space and Derived, and neither Parent nor
// CoolsUntil. All other fields are those of the pool.
func (d Derived) In(of Pool) Pool {
	made := Derived{Of: of.ID, Workspace: d.Workspace, Scope: d.Scope}
	of.ID = made.ID()
	of.Space, of.Parent, of.CoolsUntil = SpaceID(of.ID), "", time.Time{}
	of.Derived = &made
	return of
}

// digest hashes the fields. Each begins with its length, so that no two different lists of fields are written alike.
func digest(of string, workspace ClusterName, scope Scope) string {
	var text []byte
	field := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	field(of)
	field(string(workspace))
	for _, role := range slices.Sorted(maps.Keys(scope)) {
		ref := scope[role]
		field(role)
		field(ref.APIGroup)
		field(ref.Kind)
		field(ref.Name)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
