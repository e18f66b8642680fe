//go:build long

package e2e

import "testing"

// A hundred networks with ten interfaces each come at once and go, and nothing of them is left.
func TestLong_NetworksComeAndGo(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	t.Run("all", func(t *testing.T) { c.with(t, dual).comeAndGo(100, 10) })
	c.hasNothingLeft()
}
