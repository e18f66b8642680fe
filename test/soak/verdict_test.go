package main

import (
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// leak is what a process keeps that it should have let go.
type leak struct {
	memory [][]byte
	files  []*os.File
	stop   chan struct{}
}

// grow leaks 32 MiB, 100 goroutines and 50 files.
func (l *leak) grow(t *testing.T) {
	t.Helper()
	for range 32 {
		l.memory = append(l.memory, slices.Repeat([]byte{1}, mib))
	}
	for range 100 {
		go func() { <-l.stop }()
	}
	for range 50 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		l.files = append(l.files, file)
	}
}

// A process that leaks is found to, by what it leaks, and one that does not is not.
func TestVerdict_Leak(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	look := func() calm {
		runtime.GC()
		text, err := fetch(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return calm{readings: map[string][]reading{"p": {{time.Now(), parseMetrics(text)}}}}
	}
	l := &leak{stop: make(chan struct{})}
	defer close(l.stop)

	calms := []calm{look(), look(), look()}
	if got := grown(calms); len(got) > 0 {
		t.Errorf("without a leak these have grown: %q", got)
	}
	l.grow(t)
	calms[2] = look()
	got := grown(calms)
	for _, want := range []string{"heap after GC", "goroutines", "open files"} {
		if !slices.ContainsFunc(got, func(c string) bool { return strings.Contains(c, want) }) {
			t.Errorf("the leak of %s is not found, but %q", want, got)
		}
	}
	runtime.KeepAlive(l)
}

// grown are the figures of the process p, as a replica, that have grown.
func grown(calms []calm) []string {
	var list []string
	for _, c := range changes(calms, kindReplica, []string{"p"}) {
		if c.grown() {
			list = append(list, c.String())
		}
	}
	return list
}

// The first third is compared with the last, by medians.
func TestChanges(t *testing.T) {
	t.Parallel()
	at := func(values ...float64) (calms []calm) {
		for _, v := range values {
			calms = append(calms, calm{readings: map[string][]reading{"etcd-1": {
				{values: map[string]float64{dbInUse: v * mib}}, {values: map[string]float64{dbInUse: v * mib}}, {values: map[string]float64{dbInUse: 99 * mib}},
			}}})
		}
		return calms
	}
	for _, tt := range []struct {
		name  string
		calms []calm
		grown bool
	}{
		{"the same", at(2, 2, 2), false},
		{"higher in between", at(2, 2, 9, 9, 2, 2), false},
		{"a little more", at(2, 2, 2.6), false},
		{"more", at(2, 2, 2.8), true},
		{"more, slowly", at(2, 2.2, 2.4, 2.8, 3, 3.2), true},
		{"less", at(3, 2, 1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list := changes(tt.calms, kindMember, []string{"etcd-1"})
			i := slices.IndexFunc(list, func(c change) bool { return c.figure.metric == dbInUse })
			if got := list[i].grown(); got != tt.grown {
				t.Errorf("grown: %t, %s", got, list[i])
			}
		})
	}
}

// TestChanges_History: the ledger's history may grow with the claims that end.
func TestChanges_History(t *testing.T) {
	t.Parallel()
	at := func(used float64, ended int) calm {
		return calm{ended: ended, readings: map[string][]reading{"etcd-1": {{values: map[string]float64{dbInUse: used * mib}}}}}
	}
	for used, want := range map[float64]bool{5: false, 6: true} {
		list := changes([]calm{at(2, 500), at(4, 900), at(used, 1500)}, kindMember, []string{"etcd-1"})
		i := slices.IndexFunc(list, func(c change) bool { return c.figure.metric == dbInUse })
		if got := list[i].grown(); got != want {
			t.Errorf("%s after 1000 claims ended: grown is %t, want %t", list[i], got, want)
		}
	}
}

// A process that was struck comes up to what others have, and no further.
func TestChanges_Struck(t *testing.T) {
	t.Parallel()
	at := func(steady, struck float64) calm {
		one := func(v float64) []reading { return []reading{{values: map[string]float64{goroutines: v}}} }
		return calm{readings: map[string][]reading{"replica-1": one(steady), "replica-2": one(struck)}}
	}
	for last, want := range map[float64]bool{640: false, 700: true} {
		list := changes([]calm{at(630, 530), at(630, 530), at(630, last)}, kindReplica, []string{"replica-1", "replica-2"})
		i := slices.IndexFunc(list, func(c change) bool { return c.figure.metric == goroutines && c.process == "replica-2" })
		if list[i].grown() != want {
			t.Errorf("%v goroutines count as grown: %t", last, !want)
		}
	}
}

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	got := parseMetrics("# HELP go_goroutines n\n# TYPE go_goroutines gauge\ngo_goroutines 12\nipam_x{reason=\"A b\"} 1\nbig 1.5e+07\n")
	if got[goroutines] != 12 || got["big"] != 15e6 || got[series] != 3 || len(got) != 3 {
		t.Errorf("%v", got)
	}
}
