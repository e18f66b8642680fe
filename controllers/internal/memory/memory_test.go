package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestLimit_ReadsTheControlGroup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group, path, text string
		want              float64
	}{
		"in a container":      {"0::/", "memory.max", "536870912\n", 536870912},
		"of a service":        {"0::/system.slice/ipam.service\n", "system.slice/ipam.service/memory.max", "1024\n", 1024},
		"no limit":            {"0::/", "memory.max", "max\n", 0},
		"a group that is not": {"0::/gone", "memory.max", "1024\n", 0},
		"cgroup v1":           {"9:memory:/a\n8:cpu:/a\n", "memory.max", "1024\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for path, text := range map[string]string{"cgroup": tt.group, filepath.Join("tree", tt.path): tt.text} {
				path = filepath.Join(dir, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatalf("write %s: %v", path, err)
				}
			}
			got, ok := limitBelow(filepath.Join(dir, "cgroup"), filepath.Join(dir, "tree"))
			if ok != (tt.want > 0) || ok && got != tt.want {
				t.Errorf("limit = %v, %t, want %v", got, ok, tt.want)
			}
		})
	}
}

// resident finds that this process uses memory.
func TestResident_FindsMemoryInUse(t *testing.T) {
	t.Parallel()
	if bytes, err := resident(); err != nil || bytes < 1<<20 {
		t.Errorf("resident = %v, %v; want more than a megabyte", bytes, err)
	}
}

// The Watch warns once before the limit is reached, and again only after the process used less.
func TestWatch_WarnsAgainOnlyAfterLessWasUsed(t *testing.T) {
	t.Parallel()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	used := 0.0
	w := &Watch{Limit: func() (float64, bool) { return 100, true }, Resident: func() (float64, error) { return used, nil }}
	for i, step := range []struct {
		used float64
		want int
	}{{50, 0}, {84, 0}, {85, 1}, {99, 1}, {80, 1}, {90, 1}, {74, 1}, {86, 2}} {
		used = step.used
		w.look(ctx)
		if len(lines) != step.want {
			t.Errorf("step %d, at %v %%: %d warnings, want %d: %v", i, used, len(lines), step.want, lines)
		}
	}
	if want := fmt.Sprintf("%q=%d %q=%d", "resident", 85, "limit", 100); !strings.Contains(lines[0], want) {
		t.Errorf("the warning is %s, want %s in it", lines[0], want)
	}
}

// Without a limit the Watch does not warn. It looks from time to time until it is stopped.
func TestWatch_LooksUntilItIsStopped(t *testing.T) {
	t.Parallel()
	looks := make(chan struct{})
	clock := clocktesting.NewFakeClock(time.Now())
	w := &Watch{
		Limit:    func() (float64, bool) { looks <- struct{}{}; return 0, false },
		Resident: func() (float64, error) { return 100, nil }, Clock: clock,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	<-looks
	clock.Step(interval)
	<-looks
	cancel()
	if err := <-ended; err != nil || w.warned {
		t.Errorf("Start = %v, warned = %t; want neither", err, w.warned)
	}
}
