package inbox

import (
	"testing"
	"time"
)

// However often one of many pools that share a block is looked for, its turn comes once in
// a round, and no two have theirs less than the interval apart. A few take no turns.
func TestUntilTurn(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, of := range []int{few + 1, 64} {
		round, turns := time.Duration(of)*apart, map[time.Duration]int{}
		for place := range of {
			for now := start; now.Before(start.Add(round)); now = now.Add(7 * time.Millisecond) {
				wait := untilTurn(now, place, of)
				if wait < 0 || wait >= round {
					t.Fatalf("untilTurn(%v, %d, %d) = %v; want at least 0 and less than %v", now, place, of, wait, round)
				}
				turn := now.Add(wait).Sub(start) % round
				if other, taken := turns[turn]; taken && other != place {
					t.Fatalf("pools %d and %d of %d both have their turn at %v", place, other, of, turn)
				}
				turns[turn] = place
			}
		}
		if len(turns) != of {
			t.Errorf("%d pools have %d turns in a round; want one each", of, len(turns))
		}
	}
	for of := 1; of <= few; of++ {
		if wait := untilTurn(start, of-1, of); wait != 0 {
			t.Errorf("untilTurn of %d pools = %v; want 0", of, wait)
		}
	}
}
