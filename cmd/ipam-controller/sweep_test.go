package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/test/must"
)

// given parses a command line.
func given(t *testing.T, args ...string) *options {
	t.Helper()
	o, flags := defaults(), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(flags)
	must.Do(t, flags.Parse(args))
	return o
}

// An operator who lets a sweep free nothing, or no share of a large pool, gets that, and not the default.
func TestSweep_FreesNoMoreThanTheFlagsSay(t *testing.T) {
	t.Parallel()
	o := given(t, "--sweep-max-frees=0", "--sweep-max-share=0")
	must.Do(t, o.validate())
	sweeper, consumers := sweep.New(o.sweeping()), o.consumers()
	if sweeper.MaxFrees > 0 || sweeper.MaxShare > 0 {
		t.Errorf("with the flags at 0, a sweep frees up to %d orphans, and a share of %v; want none", sweeper.MaxFrees, sweeper.MaxShare)
	}
	if consumers.MaxDeletes >= 0 || consumers.MaxShare >= 0 { // where 0 is the default
		t.Errorf("with the flags at 0, claims without a consumer have the limits %d and %v; want none", consumers.MaxDeletes, consumers.MaxShare)
	}
	if usual := given(t).sweeping(); usual.MaxFrees != sweep.Defaults().MaxFrees || usual.MaxShare != sweep.Defaults().MaxShare {
		t.Errorf("without flags, a sweep frees up to %d orphans, and a share of %v; want the defaults", usual.MaxFrees, usual.MaxShare)
	}
}

// Figures of the sweep that mean nothing are refused, with the flag.
func TestValidate_Sweep(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--sweep-max-frees=-1", "--sweep-max-share=NaN", "--sweep-max-share=1.1", "--sweep-interval=0", "--orphan-min-age=0", "--orphan-min-age=-1h", "--trace-ratio=NaN"} {
		flag, _, _ := strings.Cut(arg, "=")
		if err := given(t, arg).validate(); err == nil || !strings.Contains(err.Error(), flag+" is ") {
			t.Errorf("%s: %v; want it refused", arg, err)
		}
	}
}
