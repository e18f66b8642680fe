//go:build long

package e2e

import "testing"

// The rounds of [TestRetain_NothingThatWasUnpublished], a thousand of them.
func TestLong_RetainOfClaimsThatWereNeverPublished(t *testing.T) {
	briefly(t, 1000, scene.leavesNothing)
}

// The rounds of [TestReuse_MadeAgainAtOnce], a thousand of them.
func TestLong_ReuseOfClaimsMadeAgainAtOnce(t *testing.T) {
	briefly(t, 1000, scene.comesAgain)
}
