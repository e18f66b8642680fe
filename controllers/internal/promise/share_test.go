package promise

import "testing"

// TestShares_EveryCombination: each fact about a block that a claim shows leads to one share. A claim never gets a block
// beside one that it has, nor one that another CREATE may still come with.
func TestShares_EveryCombination(t *testing.T) {
	t.Parallel()
	type facts struct {
		has      Has
		state    State
		inFlight bool
	}
	want := map[facts]Share{
		{Nothing, ForCreate, false}: Due,
		{Nothing, ForCreate, true}:  Due,
		{Nothing, OfRecord, false}:  Due,
		{Nothing, OfRecord, true}:   Due,
		{Nothing, OfClaim, false}:   Due,
		{Nothing, OfClaim, true}:    Undecided,
		{Nothing, InDispute, false}: Undecided,
		{Nothing, InDispute, true}:  Undecided,
	}
	for _, state := range []State{ForCreate, OfRecord, OfClaim, InDispute} {
		for _, inFlight := range []bool{false, true} {
			want[facts{TheBlock, state, inFlight}] = Own
			want[facts{Another, state, inFlight}] = Undecided
			for _, has := range []Has{Nothing, TheBlock, Another} {
				f := facts{has, state, inFlight}
				share, ok := want[f]
				if got := Shares(has, state, inFlight); !ok || got != share {
					t.Errorf("Shares(%+v) = %d, want %d (in the table: %t)", f, got, share, ok)
				}
			}
		}
	}
}
