package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// carve makes the pool of one level of a chain, in the first candidate of the plan that has room: in the pool above, or
// if that is zero in one that somebody has written. An address space that is made for it counts for no workspace besides
// the pool.
func (d *decision) carve(ctx context.Context, plan resolve.Plan, level resolve.Level, above ledger.Pool) (made ledger.Pool, err error) {
	if above.ID == "" && slices.ContainsFunc(plan.Candidates, d.behind) {
		return made, errBehind
	}
	if level.InPlatform {
		level.Derived.By = d.tenant()
		if err := d.counted(); err != nil {
			return made, err
		}
	}
	plan.ClassName, plan.Limit, plan.Policy, plan.Space = level.Class.Name, level.Limit, "", level.Space
	return draw(ctx, d, need[ledger.Pool]{
		what: "make a pool of class " + level.Class.Name + " in", plan: plan, ask: d.provision(level, above),
		refuse: func(_ context.Context, plan resolve.Plan, tried []miss) error {
			return d.refuseLevel(plan, above, tried)
		},
		request: func(c resolve.Candidate) ledger.Request {
			c.Strategy, c.Length, c.Exact = level.Strategy, level.Length, level.Exact
			req := d.request(plan, c)
			if level.InPlatform {
				req.Limits.Pool = nil // all workspaces share it: none of them holds it
			}
			return req
		},
	})
}

// provision asks for the pool of a level. In a dry run it only says what that would be.
func (d *decision) provision(level resolve.Level, above ledger.Pool) asksFor[ledger.Pool] {
	wanted := ledger.Pool{Cluster: d.from.Cluster, Name: level.Name, Derived: &level.Derived}
	platform := d.Directory.Platform().Cluster
	if level.InPlatform {
		wanted.Cluster = platform
	}
	if wanted.Cluster == platform {
		wanted.Name = unlike(d.Ledger.Derived.Named(wanted.Cluster, wanted.Name), wanted)
	}
	return compared(d.Compare, func(ctx context.Context, req ledger.Request) (ledger.Pool, error) {
		if !d.dry {
			return d.Ledger.Derived.Provision(ctx, req, wanted, level.Excluded)
		}
		made, err := d.imagine(ctx, req, wanted, above)
		if err == nil && level.Excluded != nil {
			made.Excluded = level.Excluded(made.CIDR)
		}
		return made, err
	})
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
func (d *decision) imagine(ctx context.Context, req ledger.Request, p, above ledger.Pool) (ledger.Pool, error) {
	p.ID = p.Derived.ID()
	req.Holder = ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name}
	var err error
	if above.ID == "" || !imagined(above) {
		p.CIDR, err = d.Ledger.Blocks.Preview(ctx, req)
	} else {
		p.CIDR, err = first(above, req)
	}
	d.imagined = p
	return p, err
}

// imagined reports whether a pool is that of a dry run: no ledger has registered it. A former one of its ID may be
// there.
func imagined(p ledger.Pool) bool { return p.RegisteredAt.IsZero() }

// refuseLevel says why a pool cannot be made. No list of the ledger has the claim: it looks again.
func (d *decision) refuseLevel(plan resolve.Plan, above ledger.Pool, tried []miss) error {
	d.waits.at(nil)
	d.waits.anyway()
	refusal := refusal(plan, tried)
	refusal.Message = fmt.Sprintf("no pool of class %q can be made for this scope: %s", plan.ClassName, refusal.Message)
	if above.ID != "" {
		refusal.Pool = ""
	}
	return refusal
}
