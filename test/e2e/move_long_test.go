//go:build long

package e2e

import "testing"

// A hundred moves lose the address no more than a few do.
func TestLong_CLIMovesAnAddressAHundredTimes(t *testing.T) {
	t.Parallel()
	moves(t, 100)
}
