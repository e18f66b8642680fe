//go:build long

package e2e

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A slice stays where it is, whatever happens to the controller or to its status, and who
// has given his up gets no other.
func TestLong_SlicesRestart(t *testing.T) {
	t.Parallel()
	s := slicedOn(t, framework.NewPlatform(t))
	s.platform.StartController(t)
	s.offer(t, gen.Slices(24))
	one, two := s.member("one"), s.member("two")
	s.slice(one)
	held := s.slice(two)
	deleteUnused(t, one, s.slice(one)) // a new slice would be lower than the one that is held
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, held)))

	s.platform.KillController(t)
	must.Do(t, framework.System(t, two.Path).Status().Patch(t.Context(), held.DeepCopy(), merge(`{"status": null}`)))
	s.platform.StartController(t)
	after := s.slice(s.member("three"))
	if again := s.slice(two); again.UID != held.UID || again.Status.AllocatedCIDR != held.Status.AllocatedCIDR {
		t.Errorf("the slice was %s, and is %s now", held.Status.AllocatedCIDR, again.Status.AllocatedCIDR)
	}
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, held), spaceOf(t, after)))
	s.hasNone(one)
}
