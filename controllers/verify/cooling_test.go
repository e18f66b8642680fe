package verify

import (
	"fmt"
	"slices"
	"strings"
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
			// The ledger of the test ends a cooldown that is over. So it is over by the verifier's clock alone.
			const cools = time.Hour
			until := time.Now().Add(cools).UTC().Format(time.RFC3339)
			s.Clock = later{by: cools + tt.after}
			cooling := strings.Replace(s.valueOfA(), `"state":"bound"`, `"state":"cooling"`, 1)
			cooling = strings.Replace(cooling, `"v":1`, `"v":3`, 1)
			s.put(blockOfA, strings.TrimSuffix(cooling, "}")+fmt.Sprintf(`,"until":%q}`, until))
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
