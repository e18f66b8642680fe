package recover

import (
	"errors"
	"maps"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// A cooling block has neither claim nor record, and that is as it should be, until its time is
// long over, which TestVerify_Findings shows. A claim that shows it still shows what it does not have.
func TestVerify_Cooling(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		after time.Duration // of the end of the cooldown
		gone  bool          // claim and record
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

// Where nobody can tell whether the APIExport is there, all is compared as usual.
func TestVerify_AnExportThatCannotBeRead(t *testing.T) {
	s := newScene(t)
	s.gone = errors.New("forbidden")
	delete(s.claims, "a")
	s.wants(BlockWithoutClaim)
}

// TestVerify_Unreadable: an object that cannot be read is a finding, and no sign that the block or the pool is nobody's.
func TestVerify_Unreadable(t *testing.T) {
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
