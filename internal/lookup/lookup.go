// Package lookup defines the query for the present and former holders of addresses, and its answer. The controller
// serves both at its socket, and over HTTPS to people with a role.
package lookup

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// Path is the path at which a controller answers over HTTPS. The right to get this path is the right to ask, too.
	Path = "/history"
	// Address is the name of the ConfigMap beside the controller's service account that says where the controller
	// answers.
	Address = "ipam-address"
	// URL is the ConfigMap's key for the URL that comes before Path.
	URL = "url"
	// CA is the ConfigMap's key for the CAs that signed the controller's certificate, as PEM. If it is absent, the
	// system's CAs are trusted.
	CA = "ca.crt"
	// Role is the ClusterRole for people who may ask.
	Role = "ipam-history-viewer"
)

// Answer is the answer to a query.
type Answer struct {
	// Revision of the ledger that was read.
	Revision int64 `json:"revision"`
	// Holders, in the order in which they got their blocks. Never nil.
	Holders []Holder `json:"holders"`
	// More: earlier holders are left out, because of the query's limit.
	More bool `json:"more,omitempty"`
	// Unreadable are the errors of the first keys that cannot be read. Holders may be missing because
	// of them.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Holder is a claim or child pool and the time in which it has or had a block.
type Holder struct {
	Prefix netip.Prefix `json:"prefix"`
	// From and Until bound that time. Until is absent while the holder has the block.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
	// Cause is why that time ended, and CoolsUntil when the block was to be free again.
	Cause      string    `json:"cause,omitempty"`
	CoolsUntil time.Time `json:"coolsUntil,omitzero"`
	// State is the state of the block; absent once the holder has let go of it.
	State string `json:"state,omitempty"`

	Cluster string `json:"cluster"`
	// Workspace is the path, if it is known.
	Workspace string `json:"workspace,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Pool      string `json:"pool"`
	// PoolName is the pool's name, and Scope the objects that it was made for, such as location=ams,network=vpc-1. Both
	// are there if the ledger has the pool, or had it when the tenure ended.
	PoolName string `json:"poolName,omitempty"`
	Scope    string `json:"scope,omitempty"`
	Space    string `json:"space"`
	Class    string `json:"class,omitempty"`
	Slice    bool   `json:"slice,omitempty"`
	// Adopted: the ledger took the block from a published record at From, and does not know
	// since when the holder had it.
	Adopted  bool  `json:"adopted,omitempty"`
	Revision int64 `json:"revision"`
}

// UsualLimit is how many holders an answer has at most, unless the query says otherwise.
const UsualLimit = 1000

// Query selects tenures. A tenure must match all fields that are set. A query needs a Prefix, a Workspace, a Claim or
// a Scope.
type Query struct {
	// Prefix: tenures of blocks that overlap it. With it, only a part of the history is read.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Workspace is a logical cluster, by ID or path.
	Workspace string `json:"workspace,omitempty"`
	// Claim is an allocation ID, or namespace/name. A claim that shows no allocation ID has its UID.
	Claim string `json:"claim,omitempty"`
	// Scope: blocks of pools that are for these objects, each the name of an object by its role.
	Scope map[string]string `json:"scope,omitempty"`
	// At: tenures at this time.
	At time.Time `json:"at,omitzero"`
	// Since: tenures at this time, or later.
	Since time.Time `json:"since,omitzero"`
	// Limit is how many holders the answer has at most: the latest ones. 0: UsualLimit.
	Limit int `json:"limit,omitempty"`
}

// Validate checks the query. Its errors say what to write instead.
func (q Query) Validate() error {
	switch {
	case !q.Prefix.IsValid() && q.Workspace == "" && q.Claim == "" && len(q.Scope) == 0:
		return errors.New("name an address or a prefix, a workspace, a claim or a scope")
	case q.Prefix.IsValid() && q.Prefix != q.Prefix.Masked():
		return fmt.Errorf("%s has host bits set; write %s, or the address alone", q.Prefix, q.Prefix.Masked())
	case !q.At.IsZero() && !q.Since.IsZero():
		return errors.New("ask for one time, or for all since one; not both")
	case q.Limit < 0:
		return fmt.Errorf("the limit is %d; give it at least 1", q.Limit)
	}
	return nil
}

// ParsePrefix reads an address or a prefix.
func ParsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is neither an address nor a prefix; write 10.64.3.7, or 10.64.0.0/16", text)
	}
	const mapped = 96 // bits before an IPv4 address in IPv6 form
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, nil
}

// The parameters of a request.
const (
	paramPrefix, paramWorkspace, paramClaim, paramScope = "prefix", "workspace", "claim", "scope"
	paramAt, paramSince, paramLimit                     = "at", "since", "limit"
)

// Values writes the query as the parameters of a request.
func (q Query) Values() url.Values {
	v := url.Values{}
	set := func(name, value string, given bool) {
		if given {
			v.Set(name, value)
		}
	}
	set(paramPrefix, q.Prefix.String(), q.Prefix.IsValid())
	set(paramWorkspace, q.Workspace, q.Workspace != "")
	set(paramClaim, q.Claim, q.Claim != "")
	set(paramAt, q.At.Format(time.RFC3339Nano), !q.At.IsZero())
	set(paramSince, q.Since.Format(time.RFC3339Nano), !q.Since.IsZero())
	set(paramLimit, strconv.Itoa(q.Limit), q.Limit != 0)
	for role, name := range q.Scope {
		v.Add(paramScope, role+"="+name)
	}
	return v
}

// ParseQuery reads the parameters of a request. An unknown parameter is an error: without it, the answer would
// contain more than was asked for.
func ParseQuery(v url.Values) (q Query, err error) {
	for name, values := range v {
		for _, value := range values {
			if err := q.set(name, value); err != nil {
				return q, err
			}
		}
	}
	return q, q.Validate()
}

func (q *Query) set(name, value string) (err error) {
	switch name {
	case paramPrefix:
		q.Prefix, err = ParsePrefix(value)
	case paramWorkspace:
		q.Workspace = value
	case paramClaim:
		q.Claim = value
	case paramAt:
		q.At, err = ParseTime(value)
	case paramSince:
		q.Since, err = ParseTime(value)
	case paramLimit:
		q.Limit, err = strconv.Atoi(value)
	case paramScope:
		role, object, ok := strings.Cut(value, "=")
		if !ok {
			return fmt.Errorf("scope is %q; write ROLE=NAME, such as network=vpc-1", value)
		}
		if q.Scope == nil {
			q.Scope = map[string]string{}
		}
		q.Scope[role] = object
	default:
		return fmt.Errorf("there is no parameter %q", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ParseTime reads a time such as 2026-03-01T14:05:00Z.
func ParseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is no time; write one such as 2026-03-01T14:05:00Z", text)
	}
	return at, nil
}

// FullName returns the holder's name, with its namespace if it has one.
func (h Holder) FullName() string {
	if h.Namespace == "" {
		return h.Name
	}
	return h.Namespace + "/" + h.Name
}

// In names the holder's workspace, by its path if that is known.
func (h Holder) In() string { return cmp.Or(h.Workspace, h.Cluster) }

// Ending says in a few words why a holder's time with its block ended, or else the state of the block.
func (h Holder) Ending() string {
	words := []string{cmp.Or(h.Cause, h.State)}
	if !h.CoolsUntil.IsZero() {
		words = append(words, "cooled until "+Moment(h.CoolsUntil))
	}
	if h.Adopted {
		words = append(words, "adopted")
	}
	return strings.Join(words, ", ")
}

// Moment writes a time for people; the zero time is empty.
func Moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
