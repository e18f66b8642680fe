//go:build long

package e2e

import "testing"

// The rounds of [TestRetain_OfAClaimThatWasNeverPublished], a thousand of them.
func TestLong_RetainOfClaimsThatWereNeverPublished(t *testing.T) {
	unpublished(t, 1000)
}
