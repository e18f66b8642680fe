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

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// maxUnreadable is how many unreadable keys an answer names at most.
const maxUnreadable = 10

// ErrQuery is the error of a query that cannot be answered. The message says what to ask instead.
var ErrQuery = errors.New("cannot be answered")

// Ledger has the data of an answer. An [allocator.Reader] is a Ledger.
type Ledger interface {
	Tenures(ctx context.Context, p netip.Prefix, visit func(ledger.Tenure, error) bool) (revision int64, err error)
}

// Names turns the paths of workspaces into logical clusters, and back. A *directory.Directory does.
type Names interface {
	Find(path string) (directory.Workspace, bool)
	Workspace(cluster ledger.ClusterName) directory.Workspace
}

type (
	// Query selects tenures.
	Query = lookup.Query
	// Holder is a claim or child pool, and the time during which it had its block.
	Holder = lookup.Holder
	// Answer lists holders.
	Answer = lookup.Answer
)

// Find answers a query. If names is nil, workspaces have IDs only. The error is ErrQuery if the query cannot be
// answered.
func Find(ctx context.Context, books Ledger, names Names, q Query) (Answer, error) {
	if err := resolve(&q, names); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	c := collection{query: q, limit: cmp.Or(q.Limit, lookup.UsualLimit), answer: Answer{Holders: []Holder{}}}
	var err error
	c.answer.Revision, err = books.Tenures(ctx, q.Prefix, c.add)
	if err = cmp.Or(err, c.failed); err != nil {
		return Answer{}, fmt.Errorf("read the ledger: %w", err)
	}
	c.shrink()
	for i := range c.answer.Holders {
		if names != nil {
			h := &c.answer.Holders[i]
			h.Workspace = names.Workspace(ledger.ClusterName(h.Cluster)).Path
		}
	}
	return c.answer, nil
}

// resolve replaces the path of a workspace in a query by its ID.
func resolve(q *Query, names Names) error {
	if err := q.Validate(); err != nil || !strings.Contains(q.Workspace, ":") {
		return err
	}
	if names == nil {
		return fmt.Errorf("no controller runs here that knows the path %s; give the ID of the logical cluster", q.Workspace)
	}
	w, ok := names.Find(q.Workspace)
	if !ok {
		return fmt.Errorf("no bound workspace has the path %s; if it is gone, give the ID of its logical cluster",
			q.Workspace)
	}
	q.Workspace = string(w.Cluster)
	return nil
}

// collection is an answer that is being collected.
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
	case !admits(c.query, t):
		return true
	}
	c.answer.Holders = append(c.answer.Holders, holderOf(t))
	if (len(c.answer.Holders)-100)/2 >= c.limit {
		c.shrink()
	}
	return true
}

// shrink sorts the holders, and keeps the latest.
func (c *collection) shrink() {
	slices.SortFunc(c.answer.Holders, func(a, b Holder) int {
		return cmp.Or(a.From.Compare(b.From), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Revision, b.Revision))
	})
	if over := len(c.answer.Holders) - c.limit; over > 0 {
		c.answer.Holders, c.answer.More = slices.Delete(c.answer.Holders, 0, over), true
	}
}

func holderOf(t ledger.Tenure) Holder {
	return Holder{
		Prefix: t.Prefix, From: t.From, Until: t.Until, Cause: string(t.Cause), CoolsUntil: t.CoolsUntil,
		State: string(t.State), Cluster: string(t.Holder.Cluster), Namespace: t.Holder.Namespace, Name: t.Holder.Name,
		UID: string(t.Holder.Claim), Pool: string(t.Pool), PoolName: t.PoolName, Scope: t.Scope, Space: string(t.Space),
		Class: t.Class, Slice: t.Slice, Adopted: t.Adopted, Revision: t.Revision,
	}
}

// Path is the path below its socket at which a controller answers.
const Path = "history"

// Handler answers over HTTP: the request is a Query as JSON, the response an Answer as JSON.
func Handler(ledger Ledger, names Names) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Query
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, "send a query: "+err.Error(), http.StatusBadRequest)
			return
		}
		respond(w, r, ledger, names, q)
	}
}

// respond answers a query.
func respond(w http.ResponseWriter, r *http.Request, ledger Ledger, names Names, q Query) {
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

// admits reports whether the query selects a tenure. A workspace in the query must be the ID of a logical cluster.
func admits(q Query, t ledger.Tenure) bool {
	if q.Prefix.IsValid() && !q.Prefix.Overlaps(t.Prefix) {
		return false
	}
	if q.Workspace != "" && q.Workspace != string(t.Holder.Cluster) {
		return false
	}
	return admitsClaim(q, t.Holder) && admitsScope(q, t) && admitsTime(q, t)
}

// admitsScope reports whether the pool of a tenure is for the objects that the query asks for. No name has a comma.
func admitsScope(q Query, t ledger.Tenure) bool {
	for role, name := range q.Scope {
		if !slices.Contains(strings.Split(t.Scope, ","), role+"="+name) {
			return false
		}
	}
	return true
}

func admitsClaim(q Query, h ledger.Holder) bool {
	if namespace, name, named := strings.Cut(q.Claim, "/"); named {
		return h.Namespace == namespace && h.Name == name
	}
	return q.Claim == "" || q.Claim == string(h.Claim)
}

func admitsTime(q Query, t ledger.Tenure) bool {
	lasts := t.Until.IsZero()
	if !q.At.IsZero() {
		return !t.From.After(q.At) && (lasts || t.Until.After(q.At))
	}
	return lasts || !t.Until.Before(q.Since)
}
