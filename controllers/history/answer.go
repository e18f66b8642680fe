package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// maxUnreadable is how many keys that cannot be read an answer names.
const maxUnreadable = 10

// ErrQuery: the query cannot be answered; the message says what to ask instead.
var ErrQuery = errors.New("cannot be answered")

// Ledger is read for an answer. [allocator.Reader] is one.
type Ledger interface {
	Tenures(ctx context.Context, p netip.Prefix, visit func(ledger.Tenure, error) bool) (revision int64, err error)
	Reserved(ctx context.Context, visit func(ledger.Tenure, error) bool) (revision int64, err error)
}

// Names turn workspaces' paths into logical clusters, and back. A *directory.Directory is one.
type Names interface {
	Find(path string) (directory.Workspace, bool)
	Workspace(cluster ledger.ClusterName) directory.Workspace
}

// Answer is the answer to a query.
type Answer struct {
	// Revision of the ledger that was read.
	Revision int64 `json:"revision"`
	// Holders, in the order in which they got their blocks. Never nil.
	Holders []Holder `json:"holders"`
	// More: earlier ones are left out, by the query's limit.
	More bool `json:"more,omitempty"`
	// Unreadable are the errors of the first keys that cannot be read. Holders may be missing because
	// of them.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Holder is a claim or child pool and the time in which it has or had a block.
type Holder struct {
	Prefix netip.Prefix `json:"prefix"`
	// From and Until say when. Until is absent while the holder has the block.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
	// Cause is why it ended, and CoolsUntil when the block was to be free again.
	Cause      ledger.Cause `json:"cause,omitempty"`
	CoolsUntil time.Time    `json:"coolsUntil,omitzero"`
	// State is that of the block; absent once the holder has let go.
	State ledger.BlockState `json:"state,omitempty"`
	// Ends is when a reserved block is released, unless its CREATE succeeds or is repeated before.
	Ends time.Time `json:"ends,omitzero"`

	Cluster ledger.ClusterName `json:"cluster"`
	// Workspace is the path, if it is known.
	Workspace string         `json:"workspace,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	UID       ledger.ClaimID `json:"uid"`
	Pool      ledger.PoolID  `json:"pool"`
	// PoolName is the pool's name, and Scope the objects that it was made for, such as location=ams,network=vpc-1. Both are
	// there if the ledger has the pool, or had it when the tenure ended.
	PoolName string         `json:"poolName,omitempty"`
	Scope    string         `json:"scope,omitempty"`
	Space    ledger.SpaceID `json:"space"`
	Class    string         `json:"class,omitempty"`
	Slice    bool           `json:"slice,omitempty"`
	// Adopted: the ledger took the block from a published record at From, and does not know
	// since when the holder had it.
	Adopted bool `json:"adopted,omitempty"`
	// Disputed: others had the same addresses at the time.
	Disputed bool  `json:"disputed,omitempty"`
	Revision int64 `json:"revision"`
}

// Find answers a query. names may be nil: then workspaces have IDs only. ErrQuery: the query cannot be
// answered.
func Find(ctx context.Context, ledger Ledger, names Names, q Query) (Answer, error) {
	if err := q.resolve(names); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	c := collection{query: q, limit: cmp.Or(q.Limit, usualLimit), answer: Answer{Holders: []Holder{}}}
	var err error
	if q.Reserved {
		c.answer.Revision, err = ledger.Reserved(ctx, c.add)
	} else {
		c.answer.Revision, err = ledger.Tenures(ctx, q.Prefix, c.add)
	}
	if err = cmp.Or(err, c.failed); err != nil {
		return Answer{}, fmt.Errorf("read the ledger: %w", err)
	}
	c.shrink()
	for i := range c.answer.Holders {
		if names != nil {
			h := &c.answer.Holders[i]
			h.Workspace = names.Workspace(h.Cluster).Path
		}
	}
	return c.answer, nil
}

// resolve replaces the path of a workspace by its ID.
func (q *Query) resolve(names Names) error {
	if err := q.Validate(); err != nil || !strings.Contains(q.Workspace, ":") {
		return err
	}
	if names == nil {
		return fmt.Errorf("no controller runs here that knows the path %s; give the ID of the logical cluster", q.Workspace)
	}
	w, ok := names.Find(q.Workspace)
	if !ok {
		return fmt.Errorf("no bound workspace has the path %s; if it is gone, give the ID of its logical cluster", q.Workspace)
	}
	q.Workspace = string(w.Cluster)
	return nil
}

// collection is an answer while it grows.
type collection struct {
	query  Query
	limit  int
	answer Answer
	failed error
}

func (c *collection) add(t ledger.Tenure, err error) bool {
	switch {
	case err != nil && !ledger.Unreadable(err):
		c.failed = err
		return false
	case err != nil:
		if len(c.answer.Unreadable) < maxUnreadable {
			c.answer.Unreadable = append(c.answer.Unreadable, err.Error())
		}
		return true
	case !c.query.admits(t):
		return true
	}
	c.answer.Holders = append(c.answer.Holders, holderOf(t))
	if (len(c.answer.Holders)-100)/2 >= c.limit {
		c.shrink()
	}
	return true
}

// shrink keeps the latest holders, in their order.
func (c *collection) shrink() {
	slices.SortFunc(c.answer.Holders, func(a, b Holder) int {
		return cmp.Or(a.From.Compare(b.From), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Revision, b.Revision))
	})
	if over := len(c.answer.Holders) - c.limit; over > 0 {
		c.answer.Holders, c.answer.More = slices.Delete(c.answer.Holders, 0, over), true
	}
}

func holderOf(t ledger.Tenure) Holder {
	h := Holder{
		Prefix: t.Prefix, From: t.From, Until: t.Until, Cause: t.Cause, CoolsUntil: t.CoolsUntil, State: t.State,
		Cluster: t.Holder.Cluster, Namespace: t.Holder.Namespace, Name: t.Holder.Name, UID: t.Holder.Claim,
		Pool: t.Pool, PoolName: t.PoolName, Scope: t.Scope, Space: t.Space, Class: t.Class, Slice: t.Slice, Adopted: t.Adopted, Disputed: t.Disputed, Revision: t.Revision,
	}
	if !t.Answered.IsZero() {
		h.Ends = t.Answered.Add(promise.Grace)
	}
	return h
}

// Path is where a controller answers, below its socket.
const Path = "history"

// Handler answers queries over HTTP: a Query as JSON, and an Answer.
func Handler(ledger Ledger, names Names) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Query
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, "send a query: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := Find(r.Context(), ledger, names, q)
		if err != nil {
			status := http.StatusServiceUnavailable
			if errors.Is(err, ErrQuery) {
				status = http.StatusBadRequest
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			log.FromContext(r.Context()).Error(err, "answer")
		}
	}
}

// usualLimit is how many holders an answer has at most, unless the query says otherwise.
const usualLimit = 1000

// Query selects tenures. All fields that are set have to match. It needs a Prefix, a Workspace, a Claim,
// a Scope or Reserved.
type Query struct {
	// Prefix: tenures of blocks that overlap it. With it, only a part of the history is read.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Workspace is a logical cluster, by ID or path.
	Workspace string `json:"workspace,omitempty"`
	// Claim is a UID, or namespace/name.
	Claim string `json:"claim,omitempty"`
	// Scope: blocks of pools that are for these objects, each the name of an object by its role.
	Scope map[string]string `json:"scope,omitempty"`
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
	case !q.Prefix.IsValid() && q.Workspace == "" && q.Claim == "" && len(q.Scope) == 0 && !q.Reserved:
		return errors.New("name an address or a prefix, a workspace, a claim or a scope, or ask for all reserved blocks")
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
	return q.admitsClaim(t.Holder) && q.admitsScope(t) && q.admitsTime(t)
}

// admitsScope reports whether the pool is for the objects that are asked for. No name has a comma.
func (q Query) admitsScope(t ledger.Tenure) bool {
	for role, name := range q.Scope {
		if !slices.Contains(strings.Split(t.Scope, ","), role+"="+name) {
			return false
		}
	}
	return true
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
