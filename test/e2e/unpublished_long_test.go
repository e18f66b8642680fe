//go:build long

package e2e

import "testing"

// This runs a thousand rounds of [TestRetain_FreesUnpublishedBlocks].
func TestLong_RetainKeepsNothingUnpublished(t *testing.T) {
	briefly(t, 1000, scene.leavesNothing)
}

// This runs a thousand rounds of [TestReuse_GivesTheSameBlockBackAtOnce].
func TestLong_ReuseGivesTheSameBlockBackAtOnce(t *testing.T) {
	briefly(t, 1000, scene.comesAgain)
}
