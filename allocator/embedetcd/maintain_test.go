package embedetcd

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/test/must"
)

// Without compaction, these writes would leave 200 MB of history.
func TestTend_BoundsTheSizeOfTheFile(t *testing.T) {
	s := mustStart(t, t.TempDir())
	s.tendByHand()
	var history []int64
	var sizes []int64
	value := strings.Repeat("v", 10_000)
	for range 20 {
		for i := range 1000 {
			put(t, s, fmt.Sprint("k", i%100), value)
		}
		revision := must.Get(s.tend(t.Context(), history))(t)
		history = remember(history, revision)
		sizes = append(sizes, s.etcd.Server.Backend().Size()>>20)
	}
	t.Log(sizes)
	if last := sizes[len(sizes)-1]; last > 120 {
		t.Error("the file has grown to", last, "MiB")
	}
}

// tendByHand stops maintain. Otherwise its rounds would come between the rounds of a test that takes more than ten
// seconds.
func (s *Server) tendByHand() {
	s.stop()
	s.goroutines.Wait()
}

// small starts a server with a small quota, and stops its maintenance. The test calls the method tend instead.
func small(t *testing.T, quota int64) *Server {
	t.Helper()
	s := must.Get(Start(t.Context(), Options{Dir: t.TempDir(), NoFsync: true, QuotaBytes: quota, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	s.tendByHand()
	return s
}

// tendFor makes a number of rounds as maintain does, after rounds with these revisions.
func (s *Server) tendFor(t *testing.T, rounds int, history []int64) []int64 {
	t.Helper()
	for range rounds {
		revision := must.Get(s.tend(t.Context(), history))(t)
		history = remember(history, revision)
	}
	return history
}

// fillUp writes until etcd has no more room, and returns how many keys etcd has taken.
func fillUp(t *testing.T, s *Server, key func(int) string) int {
	t.Helper()
	for i := range 10_000 {
		if _, err := s.Client().Put(t.Context(), key(i), strings.Repeat("v", 100_000)); err != nil {
			wantWords(t, err, "database space exceeded")
			return i
		}
	}
	t.Fatal("etcd has room for ever")
	return 0
}

// tend warns once that the file is nearly full, while there is room left. It warns again only after the file was
// smaller.
func TestTend_WarnsBeforeNoSpace(t *testing.T) {
	s := small(t, 16<<20)
	var lines strings.Builder
	s.options.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	warnings := func() int { return strings.Count(lines.String(), "nearly as large") }
	history := s.tendFor(t, 2, nil)
	if n := warnings(); n != 0 {
		t.Errorf("an empty file is told of %d times", n)
	}
	for i := 0; s.etcd.Server.Backend().Size() < 14<<20; i++ {
		put(t, s, fmt.Sprint("k", i), strings.Repeat("v", 100_000))
		s.etcd.Server.Backend().ForceCommit()
	}
	s.tendFor(t, 3, history)
	if n := warnings(); n != 1 || !strings.Contains(lines.String(), "quota=16777216") {
		t.Errorf("a file that is nearly full is told of %d times, want once with its quota:\n%s", n, lines.String())
	}
	for _, size := range []int64{12 << 20, 14 << 20} {
		s.warn(size)
	}
	if n := warnings(); n != 2 {
		t.Errorf("a file that was smaller and is nearly full again is told of %d times, want 2", n)
	}
}

func TestTend_MakesAFullServerWritableAgain(t *testing.T) {
	s := small(t, 4<<20)
	fillUp(t, s, func(int) string { return "k" })
	for !must.Get(s.alarmed(t.Context()))(t) { // etcd raises the alarm after its answer
		runtime.Gosched()
	}
	s.tendFor(t, 2*keepRounds, nil)
	put(t, s, "k", "v")
}

// A list that has begun can be finished, even if writes use more than half of the room meanwhile, or all of it.
func TestTend_KeepsHistoryForLists(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, s *Server){
		"more than half": func(t *testing.T, s *Server) {
			for i := range 100 {
				put(t, s, fmt.Sprint("k", i), strings.Repeat("v", 100_000))
			}
		},
		"all": func(t *testing.T, s *Server) { fillUp(t, s, func(i int) string { return fmt.Sprint("k", i) }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := small(t, 16<<20)
			history := s.tendFor(t, keepRounds, nil)
			put(t, s, "before", "v")
			begun := must.Get(s.Client().Get(t.Context(), "before"))(t)
			write(t, s)
			s.tendFor(t, keepRounds-1, history)
			if _, err := s.Client().Get(t.Context(), "before", clientv3.WithRev(begun.Header.Revision)); err != nil {
				t.Errorf("a read at a revision %d rounds old: %v", keepRounds-1, err)
			}
		})
	}
}

// History is dropped when it is large or old. A few small writes are no reason, because a compaction looks at every
// key.
func TestTend_CompactsHistoryThatIsLargeOrOld(t *testing.T) {
	s := small(t, 256<<20)
	put(t, s, "k", "first")
	history := s.tendFor(t, 2*keepRounds, nil)
	old := history[0]
	for i := range 3 * keepRounds {
		put(t, s, "k", fmt.Sprint(i))
		history = s.tendFor(t, 1, history)
	}
	read := func() error {
		_, err := s.Client().Get(t.Context(), "k", clientv3.WithRev(old))
		return err
	}
	if err := read(); err != nil {
		t.Errorf("a read at the revision before a few small writes: %v", err)
	}
	s.compaction.at = s.compaction.at.Add(-compactAfter)
	history = s.tendFor(t, 1, history)
	wantWords(t, read(), "compacted")

	old = history[0]
	for i := range 200 {
		put(t, s, "k", fmt.Sprint(i, strings.Repeat("v", 100_000)))
	}
	s.tendFor(t, keepRounds+1, history)
	wantWords(t, read(), "compacted")
}

// defrags counts how often etcd has defragmented.
func defrags(t *testing.T) uint64 {
	t.Helper()
	families := must.Get(prometheus.DefaultGatherer.Gather())(t)
	for _, f := range families {
		if f.GetName() == "etcd_disk_backend_defrag_duration_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	t.Fatal("etcd does not count how often it defragments")
	return 0
}

// A full file is defragmented only if that makes room, because defragmenting delays reads.
func TestTend_DefragmentsOnlyToGain(t *testing.T) {
	s := small(t, 16<<20)
	keys := fillUp(t, s, func(i int) string { return fmt.Sprint("k", i) })
	before := defrags(t)
	history := s.tendFor(t, 2*keepRounds, nil)
	if got := defrags(t) - before; got != 0 {
		t.Errorf("etcd that is full of keys was defragmented %d times; want 0", got)
	}
	if _, err := s.Client().Get(t.Context(), "k0"); err != nil {
		t.Errorf("a read while etcd is full: %v", err)
	}
	const stay = 80 // 8 MB: etcd notices late that it is full, and may have let in thrice what the quota allows
	for i := range max(keys/2, keys-stay) {
		must.Get(s.Client().Delete(t.Context(), fmt.Sprint("k", i)))(t)
	}
	s.tendFor(t, 2*keepRounds, history)
	if got := defrags(t) - before; got != 1 {
		t.Errorf("etcd that has room was defragmented %d times; want 1", got)
	}
	put(t, s, "k", "v")
}
