package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// settled waits until there is nothing but what the tenants hold, and the verifier finds nothing.
func (s *stage) settled(ctx context.Context) error {
	for _, t := range s.tenants {
		if err := retry.Do(ctx, patience, "order in "+t.path, t.tidy); err != nil {
			return err
		}
	}
	return retry.Do(ctx, patience, "a clean verification", s.verify)
}

// tidy returns an error while the tenant has claims and allocations other than those it
// holds, or unbound ones.
func (t *tenant) tidy(ctx context.Context) error {
	claims, records := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}
	if err := errors.Join(t.List(ctx, claims), t.List(ctx, records)); err != nil {
		return err
	}
	if len(claims.Items) != len(t.held) || len(records.Items) != len(t.held) {
		return fmt.Errorf("%d claims and %d allocations are there, %d are held", len(claims.Items), len(records.Items), len(t.held))
	}
	for _, claim := range claims.Items {
		if claim.Status.Phase != ipamv1alpha1.ClaimBound {
			return fmt.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
		}
	}
	return nil
}

// verify has the first replica compare the ledger with everything.
func (s *stage) verify(ctx context.Context) error {
	dir := filepath.Join(s.Dir, replicaName(0))
	out, err := s.replicas[0].Command(ctx, "verify", "-o", "json", s.servers(), socket(dir)).CombinedOutput()
	if exit, ended := errors.AsType[*exec.ExitError](err); ended {
		return fmt.Errorf("verify: %w: %s", exit, out)
	}
	return err
}

// compacted waits until each member of the ledger's etcd has dropped the history up to now.
func (s *stage) compacted(ctx context.Context) error {
	ledger, err := etcd.Dial(s.ledger.Addrs()...)
	if err != nil {
		return err
	}
	defer ledger.Close() //nolint:errcheck // It was only read.
	now, err := ledger.Get(ctx, prefix, clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	for _, p := range s.processes() {
		if p.role != kindMember {
			continue
		}
		err := retry.Do(ctx, patience, p.name+" to compact", func(ctx context.Context) error {
			seen, err := p.look(ctx)
			if at := seen.values["etcd_debugging_mvcc_compact_revision"]; err == nil && at < float64(now.Header.Revision) {
				err = fmt.Errorf("it keeps history from revision %.0f on, and %d is long over", at, now.Header.Revision)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clear deletes all claims and pools, and waits until nothing of them is left.
func (s *stage) clear(ctx context.Context) error {
	s.Say("deleting everything")
	if err := s.levels(ctx, 0); err != nil {
		return err
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	if err := s.clearPools(ctx); err != nil {
		return err
	}
	return retry.Do(ctx, patience, "an empty ledger", s.empty)
}

// clearPools deletes what a tenant, or the platform, may delete: a pool that is still
// shown to be in use is tried again.
func (s *stage) clearPools(ctx context.Context) error {
	for _, t := range s.tenants {
		err := retry.Do(ctx, patience, "delete the pool of "+t.path, func(ctx context.Context) error {
			return gone(t.Delete(ctx, gen.Pool(own)), "ippools", own)
		})
		if err != nil {
			return err
		}
	}
	admin, err := s.KCP.Admin()
	if err != nil {
		return err
	}
	c, err := workspaces.NewClient(workspaces.At(admin, platform))
	if err != nil {
		return err
	}
	return retry.Do(ctx, patience, "delete the pools of the platform", func(ctx context.Context) error {
		return errors.Join(c.DeleteAllOf(ctx, &ipamv1alpha1.IPPool{}), c.DeleteAllOf(ctx, &ipamv1alpha1.IPClass{}))
	})
}

// empty returns an error while the ledger has anything of a claim, a block or a pool.
func (s *stage) empty(ctx context.Context) error {
	ledger, err := etcd.Dial(s.ledger.Addrs()...)
	if err != nil {
		return err
	}
	defer ledger.Close() //nolint:errcheck // It was only read.
	for _, kind := range []string{"claims", "pools", "spaces"} {
		left, err := ledger.Get(ctx, prefix+"/"+kind+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		if left.Count > 0 {
			return fmt.Errorf("the ledger has %d keys of %s still, the first is %s", left.Count, kind, left.Kvs[0].Key)
		}
	}
	return nil
}
