package e2e

import (
	"slices"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The verifier finds nothing if all is in order. It finds forced changes, both in the running controller and without
// it, and mends them if that is safe.
func TestVerify(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	stays := gen.Claim("stays", gen.OfClass(name), gen.Length(28))
	goes := gen.Claim("goes", gen.OfClass(name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	own := gen.Pool("own", gen.CIDR("192.168.0.0/16"))
	child := gen.Pool("child", gen.ChildOf("own", 24))
	framework.Create(t, tenant, stays, goes, own, child)
	framework.WaitBound(t, tenant, stays, goes)
	framework.WaitAllocated(t, tenant, child, ipamv1alpha1.ReasonAllocationSucceeded)
	framework.Delete(t, tenant, goes)
	platform.WaitVerified(t)
	if metrics := platform.Metrics(t); !strings.Contains(metrics, `ipam_verify_findings{kind="BlockWithoutClaim"} 0`) ||
		strings.Contains(metrics, "ipam_verify_revision 0") {
		t.Error("the metrics do not show that all was verified")
	}

	t.Log("a forged status is seen, and written again on demand")
	system := framework.System(t, platform.Path)
	framework.WaitFor(t, system, pool, func(*ipamv1alpha1.IPPool) error { return nil })
	pool.Status.Capacity.Allocated = "1"
	must.Do(t, system.Status().Update(t.Context(), pool))
	finds(t, platform, recover.CapacityMismatch, pool.Name)
	if report, exit := platform.Verify(t, "--repair"); exit != 0 {
		t.Errorf("after the repair verify exits with %d and finds %+v", exit, report.Findings)
	}

	t.Log("a record that is lost while the controller is away is seen without it")
	platform.KillController(t)
	record := gen.Allocation(stays.Name, pool.Name, stays.Status.AllocatedCIDR)
	framework.Delete(t, framework.System(t, tenant.Path), record)
	finds(t, platform, recover.BlockWithoutRecord, stays.Name)
	if _, exit := platform.Verify(t, "--repair"); exit != 3 {
		t.Errorf("a repair without a controller exits with %d, want 3", exit)
	}
	platform.StartController(t)
	platform.WaitVerified(t)
	for _, flags := range [][]string{{"-o", "xml"}, {"--no-such-flag"}, {"argument"}} {
		if _, exit := platform.Verify(t, flags...); exit != 2 {
			t.Errorf("verify %q exits with %d, want 2", flags, exit)
		}
	}
}

// finds fails the test unless verify, with these flags, finds this problem.
func finds(t *testing.T, platform *framework.Platform, kind recover.Kind, name string, flags ...string) {
	t.Helper()
	report, got := platform.Verify(t, flags...)
	named := func(f recover.Finding) bool { return f.Kind == kind && f.Name == name }
	if got != 1 || !slices.ContainsFunc(report.Findings, named) {
		t.Errorf("verify exits with %d and finds %+v; want 1 and %s of %s", got, report.Findings, kind, name)
	}
}
