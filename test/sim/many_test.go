package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	histories = flag.Int("histories", 0, "play so many stories of the profiles, from -seed on, or from a new seed, on all cores")
	traces    = flag.String("traces", "", "write the traces of histories with findings into this folder")
	worker    = flag.Bool("worker", false, "print results as JSON; for the processes that -histories starts")
)

// result counts the findings of a history.
type result struct {
	Profile  string
	Seed     uint64
	Oracles  []string // each once
	First    string   // the first finding
	Commits  int
	Findings int
}

// The flag -histories plays stories of fresh seeds, each process on one core, and prints a table.
func TestSim_Many(t *testing.T) {
	switch {
	case *histories == 0:
		return
	case *worker:
		for i := range *histories {
			report(t, Draw(*profile, *seed+uint64(i)))
		}
		return
	}
	names := strings.Split(*profile, ",")
	if *profile == "all" {
		names = Profiles()
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano()) / 1000 % 1_000_000_000 // any number, short enough to be typed
	}
	began := time.Now()
	results := spread(t, names, first)
	fmt.Print(table(results, first, time.Since(began)))
	for _, r := range results {
		if r.Findings > 0 {
			t.Errorf("%s seed %d: %s", r.Profile, r.Seed, r.First)
		}
	}
}

// report plays a story in a worker, and prints the result.
func report(t *testing.T, story Story) {
	t.Helper()
	played := Play(t, story, false)
	r := result{Profile: story.Profile, Seed: story.Seed, Commits: played.Commits, Findings: len(played.Findings)}
	for _, f := range played.Findings {
		r.Oracles = append(r.Oracles, f.Oracle)
	}
	slices.Sort(r.Oracles)
	r.Oracles = slices.Compact(r.Oracles)
	if len(played.Findings) > 0 {
		r.First = played.Findings[0].String()
		keep(t, story, played)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	fmt.Println(string(line))
}

// keep writes story, findings and trace of a history.
func keep(t *testing.T, story Story, played Report) {
	t.Helper()
	if *traces == "" {
		return
	}
	lines := []string{story.String()}
	for _, f := range played.Findings {
		lines = append(lines, f.String())
	}
	if err := os.MkdirAll(*traces, 0o750); err != nil {
		t.Errorf("MkdirAll: %v", err)
	}
	name := filepath.Join(*traces, fmt.Sprintf("%s-%d.txt", story.Profile, story.Seed))
	if err := os.WriteFile(name, []byte(strings.Join(slices.Concat(lines, played.Trace), "\n")), 0o600); err != nil {
		t.Errorf("WriteFile: %v", err)
	}
}

// most is how many histories a process plays at most.
const most = 25

// spread plays the histories on all cores. A batch whose process ends badly counts as a finding.
func spread(t *testing.T, names []string, first uint64) (results []result) {
	t.Helper()
	type job struct {
		profile string
		seed    uint64
		n       int
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				got, err := play(t.Context(), j.profile, j.seed, j.n)
				if err != nil {
					got = append(got, result{Profile: j.profile, Seed: j.seed + uint64(len(got)), Oracles: []string{"CRASH"}, First: err.Error(), Findings: 1})
				}
				mu.Lock()
				results = append(results, got...)
				mu.Unlock()
			}
		})
	}
	batch := min(most, (*histories+len(names)-1)/len(names))
	for at, left := uint64(0), *histories; left > 0; at += uint64(batch) {
		for _, name := range names {
			n := min(batch, left)
			left -= n
			if n > 0 {
				jobs <- job{name, first + at, n}
			}
		}
	}
	close(jobs)
	workers.Wait()
	slices.SortFunc(results, func(a, b result) int { return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Seed, b.Seed)) })
	return results
}

// play plays histories in a process of one core.
func play(ctx context.Context, profile string, seed uint64, n int) (results []result, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, self, "-test.run", "^TestSim_Many$", "-test.timeout", "30m", "-worker", "-profile", profile,
		"-seed", fmt.Sprint(seed), "-histories", fmt.Sprint(n), "-traces", *traces)
	run.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=600")
	out, err := run.CombinedOutput()
	last := ""
	for line := range strings.Lines(string(out)) {
		r := result{}
		if json.Unmarshal([]byte(line), &r) == nil && r.Profile != "" {
			results = append(results, r)
			continue
		}
		last += line
	}
	if err != nil {
		return results, fmt.Errorf("%w: %.2000s", err, last)
	}
	return results, nil
}

// table returns the findings by profile and oracle, with the first seed of each.
func table(results []result, first uint64, took time.Duration) string {
	type cell struct{ profile, oracle string }
	seeds, played, bad := map[cell][]uint64{}, map[string]int{}, map[string]int{}
	for _, r := range results {
		played[r.Profile]++
		if r.Findings > 0 {
			bad[r.Profile]++
		}
		for _, o := range r.Oracles {
			seeds[cell{r.Profile, o}] = append(seeds[cell{r.Profile, o}], r.Seed)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-11s %9s %9s  %s\n", "PROFILE", "ORACLE", "HISTORIES", "SEEDS", "FIRST SEED, OF "+fmt.Sprint(first)+" ON")
	for _, name := range sorted(played) {
		fmt.Fprintf(&b, "%-10s %-11s %9d %9d\n", name, "any", played[name], bad[name])
		cells := slices.SortedFunc(maps.Keys(seeds), func(a, b cell) int { return cmp.Compare(a.oracle, b.oracle) })
		for _, c := range cells {
			if c.profile == name {
				fmt.Fprintf(&b, "%-10s %-11s %9s %9d  %d\n", "", c.oracle, "", len(seeds[c]), slices.Min(seeds[c]))
			}
		}
	}
	fmt.Fprintf(&b, "%d histories in %s, %.0f a minute\n", len(results), took.Round(time.Second), float64(len(results))/took.Minutes())
	return b.String()
}
