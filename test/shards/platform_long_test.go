//go:build long

package shards

import (
	"fmt"
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// While the shard of the platform is away for longer than a replica goes without any answer, CREATE is answered in the
// workspaces of the other shard, and the controller is ready.
func TestLong_ThePlatformAway(t *testing.T) {
	s := newScene(t)
	framework.KillShard(t, framework.RootShard)
	back := false
	restore := func() {
		if !back {
			framework.StartShard(t, framework.RootShard)
		}
		back = true
	}
	defer restore() // the others that this kcp serves need it, too
	killed := time.Now()
	answered := func(age time.Duration) error {
		claim := gen.Claim("", gen.OfClass(s.pool.Name), gen.Length(28))
		claim.GenerateName = "away-"
		if err := s.there.Create(t.Context(), claim); err != nil {
			return err
		}
		s.far = append(s.far, claim)
		if claim.Status.Phase != ipamv1alpha1.ClaimBound {
			return fmt.Errorf("after %s the CREATE of claim %s has no answer", age, claim.Name)
		}
		return nil
	}
	const long = 40 * time.Second // a replica is blind after 30 seconds without an answer
	for age := time.Duration(0); age < long; age = time.Since(killed) {
		must.Do(t, answered(age))
		retry.Pause(t.Context(), time.Second)
	}
	if err := answered(long); err != nil {
		t.Errorf("answered: %v", err)
	}
	if err := s.platform.Probe(t.Context(), "/readyz"); err != nil {
		t.Errorf("the controller is not ready after %s: %v; want it ready", long, err)
	}
	restore()
	s.keeps()
}
