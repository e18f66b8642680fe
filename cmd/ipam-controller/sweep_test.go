package main

import (
	"testing"

	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/test/must"
)

// If an operator sets a limit of the sweep to 0, the sweep frees nothing, or no share of a large pool. The 0 does not
// mean the default.
func TestSweep_FreesNoMoreThanTheFlagsSay(t *testing.T) {
	t.Parallel()
	o := given(t, "--sweep-max-frees=0", "--sweep-max-share=0")
	must.Do(t, o.validate())
	sweeper := sweep.New(o.sweeping())
	if sweeper.MaxFrees > 0 || sweeper.MaxShare > 0 {
		t.Errorf("with the flags at 0, a sweep frees up to %d orphans, and a share of %v; want none", sweeper.MaxFrees, sweeper.MaxShare)
	}
	if usual := given(t).sweeping(); usual.MaxFrees != sweep.Defaults().MaxFrees || usual.MaxShare != sweep.Defaults().MaxShare {
		t.Errorf("without flags, a sweep frees up to %d orphans, and a share of %v; want the defaults", usual.MaxFrees, usual.MaxShare)
	}
}
