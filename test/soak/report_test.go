package main

import (
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// staged is what a soak of a quarter of an hour might have found.
func staged(t *testing.T) *findings {
	t.Helper()
	opts, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	r := &record{began: time.Now()}
	f := &findings{options: opts, record: r, given: 15000, reused: 14000}
	all := append(append(f.named(kindReplica), f.named(kindMember)...), kindKCP)
	for at := r.began; at.Before(r.began.Add(opts.duration)); at = at.Add(opts.sample) {
		r.holds(random.IntN(9) - 4)
		r.count(at)
		r.bound(at.Add(-time.Second), at.Add(time.Duration(random.IntN(4000))*time.Millisecond))
		for _, process := range all {
			values := map[string]float64{}
			for _, metric := range []string{heap, resident, goroutines, files, dbSize, dbInUse} {
				values[metric] = (50 + random.Float64()) * mib
			}
			r.saw(process, reading{at, values})
		}
	}
	for i := range opts.rounds {
		at := r.began.Add(time.Duration(i+1) * opts.round())
		c := calm{from: at.Add(-time.Minute), to: at, claims: 400, readings: map[string][]reading{}}
		for _, process := range all {
			c.readings[process] = r.courses[process].readings[:3]
		}
		r.calm(c)
		for j := range 8 {
			r.struck(strike{at.Add(-time.Duration(j) * 10 * time.Second), victim{kind: []string{kindKCP, kindMember, kindReplica}[j%3]}, j%2 == 0, time.Second})
		}
	}
	return f
}

// The page is written between its marks, and the samples are CSV.
func TestPublish(t *testing.T) {
	t.Parallel()
	f := staged(t)
	f.out = filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(f.out, []byte("before\n<!-- soak:begin -->\nold\n<!-- soak:end -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.samples = filepath.Join(t.TempDir(), "soak.csv")
	if err := f.publish(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "\nafter\n", "nothing has grown", "15000, 14000 of them", "| replica-1 | replica-2 | replica-3 |", "| kcp | 12 | 6 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	file, err := os.Open(f.samples)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]int{}
	for _, row := range rows {
		samples[row[1]+" "+row[2]]++
	}
	for _, want := range []string{"subject figure", "claims held", "claims create_to_bound", "calm lasted", "replica-1 " + heap, "kcp " + resident} {
		if samples[want] == 0 {
			t.Errorf("the samples have no row of %q", want)
		}
	}
}

// Whatever is wrong is said, and fails.
func TestVerdict_Wrong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wrong func(*findings)
		says  string
	}{
		"nothing":          {func(*findings) {}, ""},
		"an address twice": {func(f *findings) { f.wrong = []string{"a has 10.0.0.1/32 while b has"} }, "while b has"},
		"a pool stays":     {func(f *findings) { f.left = "the ledger has 2 keys of pools still" }, "2 keys of pools"},
		"a replica ends":   {func(f *findings) { f.ended("replica-2") }, "replica-2 has ended by itself"},
		"the leader ends":  {func(f *findings) { f.ended("replica-2"); f.controllerFlags = []string{leaderElect} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := staged(t)
			tt.wrong(f)
			err := f.verdict()
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the verdict is %v; want %q", err, tt.says)
			}
			if said := strings.Contains(f.report(), "nothing has grown"); said != (err == nil) {
				t.Errorf("the report says that nothing has grown: %t", said)
			}
		})
	}
}
