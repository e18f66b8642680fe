package history

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// usualLimit is how many holders an answer has at most, unless the query says otherwise.
const usualLimit = 1000

// Query selects tenures. All fields that are set have to match. It needs a Prefix, a Workspace, a Claim or
// Reserved.
type Query struct {
	// Prefix: tenures of blocks that overlap it. With it, only a part of the history is read.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Workspace is a logical cluster, by ID or path.
	Workspace string `json:"workspace,omitempty"`
	// Claim is a UID, or namespace/name.
	Claim string `json:"claim,omitempty"`
	// Reserved: blocks that a CREATE was answered with, and that no claim has confirmed. Only these are read.
	Reserved bool `json:"reserved,omitempty"`
	// At: tenures at this time.
	At time.Time `json:"at,omitzero"`
	// Since: tenures at this time, or later.
	Since time.Time `json:"since,omitzero"`
	// Limit is how many holders the answer has at most, the latest; 0: 1000.
	Limit int `json:"limit,omitempty"`
}

// Validate checks the query. Its errors say what to write instead.
func (q Query) Validate() error {
	switch {
	case !q.Prefix.IsValid() && q.Workspace == "" && q.Claim == "" && !q.Reserved:
		return errors.New("name an address or a prefix, a workspace or a claim, or ask for all reserved blocks")
	case q.Prefix.IsValid() && q.Prefix != q.Prefix.Masked():
		return fmt.Errorf("%s has host bits set; write %s, or the address alone", q.Prefix, q.Prefix.Masked())
	case !q.At.IsZero() && !q.Since.IsZero():
		return errors.New("ask for one time, or for all since one; not both")
	case q.Limit < 0:
		return fmt.Errorf("the limit is %d; give it at least 1", q.Limit)
	}
	return nil
}

// admits reports whether the query selects a tenure. Its workspace is the ID of a logical cluster by now.
func (q Query) admits(t ledger.Tenure) bool {
	if q.Reserved && t.Answered.IsZero() || q.Prefix.IsValid() && !q.Prefix.Overlaps(t.Prefix) {
		return false
	}
	if q.Workspace != "" && q.Workspace != string(t.Holder.Cluster) {
		return false
	}
	return q.admitsClaim(t.Holder) && q.admitsTime(t)
}

func (q Query) admitsClaim(h ledger.Holder) bool {
	if namespace, name, named := strings.Cut(q.Claim, "/"); named {
		return h.Namespace == namespace && h.Name == name
	}
	return q.Claim == "" || q.Claim == string(h.Claim)
}

func (q Query) admitsTime(t ledger.Tenure) bool {
	lasts := t.Until.IsZero()
	if !q.At.IsZero() {
		return !t.From.After(q.At) && (lasts || t.Until.After(q.At))
	}
	return lasts || !t.Until.Before(q.Since)
}
