//go:build long

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/verify"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Whoever writes to etcd past the controller is found out: a block that nobody claims
// is freed on demand, and one that is taken from a claim is not given back by guessing.
func TestLong_VerifyDamagedLedger(t *testing.T) {
	t.Parallel()
	store, err := etcd.New(t.Context(), etcd.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := etcd.Dial(store.Addrs()...)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	platform := framework.NewPlatform(t)
	servers, socket := "--etcd-servers=http://"+store.Members[0].Addr, "--verify-socket="+filepath.Join(t.TempDir(), "verify.sock")
	replica := platform.Replica(t, "external", servers, socket)
	replica.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)
	claim := gen.Claim("robbed", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitBound(t, tenant, claim)
	replica.WaitVerified(t, servers) // without a socket it reads both itself

	block := netip.MustParsePrefix(claim.Status.AllocatedCIDR)
	value, err := ledger.Get(t.Context(), blockKey(pool, block))
	if err != nil || len(value.Kvs) != 1 {
		t.Fatalf("the ledger has no block of the claim: %v", err)
	}
	ghost := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, block.Addr().As4()[1], 7, 0}), 28)
	write(t, ledger,
		clientv3.OpPut(blockKey(pool, ghost), strings.NewReplacer(string(claim.UID), "ghost-uid", claim.Name, "ghost").Replace(string(value.Kvs[0].Value))),
		clientv3.OpPut("/ipam/v1/claims/ghost-uid", fmt.Sprintf(`{"v":1,"space":%q,"prefix":%q}`, pool.UID, ghost)),
		clientv3.OpPut(headKey(pool), headOf(t, ledger, pool)),
	)
	finds(t, replica, verify.BlockWithoutClaim, "ghost", socket, servers)
	if report, exit := replica.Verify(t, "--repair", socket, servers); exit != 0 {
		t.Errorf("after the repair verify exits with %d and finds %+v", exit, report.Findings)
	}
	waitHeld(t, platform, pool, size(block))

	write(t, ledger,
		clientv3.OpDelete(blockKey(pool, block)),
		clientv3.OpDelete("/ipam/v1/claims/"+string(claim.UID)),
		clientv3.OpPut(headKey(pool), headOf(t, ledger, pool)),
	)
	finds(t, replica, verify.ClaimWithoutBlock, claim.Name, "--repair", socket, servers)
	if _, exit := replica.Verify(t, "--etcd-servers=http://127.0.0.1:1"); exit != 3 {
		t.Errorf("verify without a ledger exits with %d, want 3", exit)
	}
}

func headKey(pool client.Object) string {
	return "/ipam/v1/spaces/" + string(pool.GetUID()) + "/head"
}

// blockKey is the key of a block of IPv4.
func blockKey(pool client.Object, block netip.Prefix) string {
	a := block.Addr().As4()
	return fmt.Sprintf("/ipam/v1/spaces/%s/blocks/%03d.%03d.%03d.%03d-%02d", pool.GetUID(), a[0], a[1], a[2], a[3], block.Bits())
}

// headOf is the next value of a pool's head.
func headOf(t *testing.T, ledger *clientv3.Client, pool client.Object) string {
	t.Helper()
	got, err := ledger.Get(t.Context(), headKey(pool))
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("the pool has no head: %v", err)
	}
	var head struct {
		V int   `json:"v"`
		N int64 `json:"n"`
	}
	if err := json.Unmarshal(got.Kvs[0].Value, &head); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return fmt.Sprintf(`{"v":%d,"n":%d}`, head.V, head.N+1)
}

// write changes the ledger in one transaction, past the controller.
func write(t *testing.T, ledger *clientv3.Client, ops ...clientv3.Op) {
	t.Helper()
	if _, err := ledger.Txn(t.Context()).Then(ops...).Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}
