package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// making makes the pool of one level of a chain: in a pool of the chain, above, or if that is zero in one that somebody
// has written.
type making struct {
	by    *decision // of the claim that needs the pool
	plan  resolve.Plan
	level resolve.Level
	above ledger.Pool
}

// carve makes the pool in the first candidate of the plan that has room.
func (m *making) carve(ctx context.Context) (made ledger.Pool, err error) {
	if m.above.ID == "" && slices.ContainsFunc(m.plan.Candidates, m.by.behind) {
		return made, errBehind
	}
	if m.level.InPlatform {
		m.level.Derived.By = m.by.tenant()
		if err := m.by.counted(); err != nil {
			return made, err
		}
	}
	var tried []miss
	candidates := m.by.few(ctx, m.plan.Candidates, m.request)
	m.plan.Passed = len(m.plan.Candidates) - len(candidates)
	for _, c := range candidates {
		c.Exact = m.level.Exact // a refusal names it
		request := m.request(c)
		made, err = m.carveFrom(ctx, request)
		if unchecked(err) {
			if err := m.by.waits.unchecked(request); err != nil {
				return made, err
			}
		}
		switch {
		case err == nil:
			return made, nil
		case m.above.ID == "" && errors.Is(err, ledger.ErrUnknownPool), errors.Is(err, ledger.ErrPoolDraining):
			continue // the catalog lags behind the ledger
		case refusedRoom(err), overClass(err):
			tried = append(tried, miss{c, err})
		default:
			return made, fmt.Errorf("make a pool of class %s in pool %s: %w", m.level.Class.Name, c.Pool.Name, err)
		}
		if overClass(err) {
			break
		}
	}
	return made, m.refuse(tried)
}

// request returns the request for the pool in a candidate.
func (m *making) request(c resolve.Candidate) ledger.Request {
	plan := m.plan
	plan.ClassName, plan.Limit, plan.Policy, plan.Space = m.level.Class.Name, m.level.Limit, "", m.level.Space
	c.Strategy, c.Length, c.Exact = m.level.Strategy, m.level.Length, m.level.Exact
	req := m.by.request(plan, c)
	if m.level.InPlatform {
		req.Limits.Pool = nil // all workspaces share it: none of them holds it
	}
	return req
}

// carveFrom makes the pool in another one. In a dry run it only says what that would be. An address space that is made
// for it counts for no workspace besides the pool.
func (m *making) carveFrom(ctx context.Context, req ledger.Request) (ledger.Pool, error) {
	d := m.by
	wanted := ledger.Pool{Cluster: d.from.Cluster, Name: m.level.Name, Derived: &m.level.Derived}
	platform := d.Directory.Platform().Cluster
	if m.level.InPlatform {
		wanted.Cluster = platform
	}
	if wanted.Cluster == platform {
		wanted.Name = unlike(d.Ledger.Derived.Named(wanted.Cluster, wanted.Name), wanted)
	}
	provision := compared(d.Compare, func(ctx context.Context, req ledger.Request) (ledger.Pool, error) {
		if d.dry {
			return m.imagine(ctx, req, wanted)
		}
		return d.Ledger.Derived.Provision(ctx, req, wanted, m.level.Excluded)
	})
	uncounted := func() error { return nil }
	made, err := (&drawing[ledger.Pool]{decision: d, ask: provision, more: uncounted}).in(ctx, req)
	if d.dry && err == nil && m.level.Excluded != nil {
		made.Excluded = m.level.Excluded(made.CIDR)
	}
	return made, err
}

// unlike returns a name for a pool of the platform's workspace: with its whole digest if another derived pool there has
// the name that it would have. A tenant can choose a scope for that, whose pool would keep the IPPool of this one from
// being made.
func unlike(named []ledger.PoolID, made ledger.Pool) string {
	id := made.Derived.ID()
	if !slices.ContainsFunc(named, func(other ledger.PoolID) bool { return other != id }) {
		return made.Name
	}
	digest := ledger.Digest(id)
	return made.Name[:min(strings.LastIndex(made.Name, "-"), 253-1-len(digest))] + "-" + digest
}

// imagine returns the pool that would be carved. The one above may be imagined, too.
func (m *making) imagine(ctx context.Context, req ledger.Request, p ledger.Pool) (ledger.Pool, error) {
	p.ID = p.Derived.ID()
	req.Holder = ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name}
	var err error
	if m.above.ID == "" || !imagined(m.above) {
		p.CIDR, err = m.by.Ledger.Blocks.Preview(ctx, req)
	} else {
		p.CIDR, err = first(m.above, req)
	}
	m.by.imagined = p
	return p, err
}

// imagined reports whether a pool is that of a dry run: no ledger has registered it. A former one of its ID may be
// there.
func imagined(p ledger.Pool) bool { return p.RegisteredAt.IsZero() }

// refuse says why the pool cannot be made. No list of the ledger has the claim: it looks again.
func (m *making) refuse(tried []miss) error {
	m.by.waits.at(nil)
	m.by.waits.anyway()
	refusal := refusal(m.plan, tried)
	refusal.Message = fmt.Sprintf("no pool of class %q can be made for this scope: %s", m.level.Class.Name, refusal.Message)
	if len(m.plan.Candidates) > 0 && ledger.IsDerived(m.plan.Candidates[0].Pool.UID) {
		refusal.Pool = ""
	}
	return refusal
}
