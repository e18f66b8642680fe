package e2e

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Two replicas share an etcd of its own, over TLS. One works; when it is killed,
// the other goes on where it was.
func TestReplicas_TakeOver(t *testing.T) {
	t.Parallel()
	secure, err := etcd.Certificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, err := etcd.New(t.Context(), etcd.Options{Dir: t.TempDir(), TLS: secure})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	platform := framework.NewPlatform(t)
	flags := []string{
		"--etcd-servers=https://" + store.Members[0].Addr,
		"--etcd-cafile=" + secure.TrustedCAFile, "--etcd-certfile=" + secure.CertFile, "--etcd-keyfile=" + secure.KeyFile,
		"--leader-elect",
	}
	first, second := platform.Replica(t, "first", flags...), platform.Replica(t, "second", flags...)
	first.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)

	held := map[string]string{}
	for i := range 4 {
		switch i {
		case 2:
			second.StartController(t) // ready, and waits
		case 3:
			first.KillController(t)
		}
		claim := gen.Claim(fmt.Sprint("c", i), gen.OfClass(name), gen.Length(28))
		framework.Create(t, tenant, claim)
		framework.WaitBound(t, tenant, claim)
		if other, twice := held[claim.Status.AllocatedCIDR]; twice {
			t.Errorf("%s was given to %s and to %s", claim.Status.AllocatedCIDR, other, claim.Name)
		}
		held[claim.Status.AllocatedCIDR] = claim.Name
	}
}
