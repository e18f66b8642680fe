package recover

import (
	"errors"
	"maps"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// A cooling block without claim and IPAllocation is no finding, until its cooldown ended long ago; see
// TestVerify_FindsEachKindOfDamage. A claim that still shows the block is a finding, and so is an IPAllocation that
// shows it.
func TestVerify_AcceptsACoolingBlock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		after time.Duration // how long after the end of the cooldown
		gone  bool          // the claim and its IPAllocation are deleted
		want  []Kind
	}{
		{"it cools", -time.Minute, true, nil},
		{"it was over a moment ago", time.Second, true, nil},
		{"its claim is there", -time.Minute, false, []Kind{ClaimWithoutBlock, RecordWithoutBlock}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			const cools = time.Hour
			s.cool(cools)
			s.Clock = later{by: cools + tt.after}
			if tt.gone {
				delete(s.claims, "a")
				delete(s.records, "a")
			}
			s.wants(tt.want...)
		})
	}
}

// If Verify cannot read whether the APIExport exists, it compares ledger and objects as usual.
func TestVerify_ComparesWhileTheExportIsUnreadable(t *testing.T) {
	s := newScene(t)
	s.gone = errors.New("forbidden")
	delete(s.claims, "a")
	s.wants(BlockWithoutClaim)
}

// An object that cannot be read is one finding. Its block or pool is not reported as missing an object.
func TestVerify_FindsAnUnreadableObjectOnce(t *testing.T) {
	for name, change := range map[string]func(*scene) client.Object{
		"a claim":           func(s *scene) client.Object { return s.claims["a"] },
		"a record":          func(s *scene) client.Object { return s.records["a"] },
		"a retained record": func(s *scene) client.Object { return s.records["r"] },
		"a pool":            func(s *scene) client.Object { return s.pools["root"] },
		"a child pool":      func(s *scene) client.Object { return s.pools["child"] },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			odd := change(s)
			marked := map[string]string{decode.Mark: "spec.x"}
			maps.Copy(marked, odd.GetAnnotations())
			odd.SetAnnotations(marked)
			findings := s.wants(Unreadable)
			if len(findings) != 1 || findings[0].Name != odd.GetName() || findings[0].Repair != "" {
				t.Errorf("found %+v, want %s as Unreadable, and nothing else", findings, odd.GetName())
			}
		})
	}
}
