package verify

import (
	"slices"
	"testing"
	"time"
)

// A cooling block has neither claim nor record, and that is as it should be, until its time is
// long over. A claim that shows it still shows what it does not have.
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
		{"it is long over", overdue + time.Minute, true, []Kind{BlockOverdue}},
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
			if kinds, findings := s.verify(); !slices.Equal(kinds, tt.want) {
				t.Errorf("found %v, want %v", findings, tt.want)
			}
		})
	}
}
