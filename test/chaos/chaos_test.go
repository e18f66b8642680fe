package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/must"
)

var (
	seeds    = flag.String("seeds", "1,2", "comma-separated seeds, one run for each")
	rounds   = flag.Int("rounds", 0, "run this many seeds of the day instead")
	duration = flag.Duration("duration", 12*time.Second, "how long a run lasts")
)

func TestMain(m *testing.M) {
	if addrs := os.Getenv(workerEnv); addrs != "" {
		if err := work(addrs); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// wanted returns the seeds to run.
func wanted(t *testing.T) []uint64 {
	t.Helper()
	var list []uint64
	for i := range *rounds {
		list = append(list, uint64(time.Now().Unix())+uint64(i))
	}
	if len(list) > 0 {
		return list
	}
	for s := range strings.SplitSeq(*seeds, ",") {
		seed := must.Get(strconv.ParseUint(s, 10, 64))(t)
		list = append(list, seed)
	}
	return list
}

// Three allocators that take the office from each other answer like one ledger, whatever faults they and etcd suffer.
func TestChaos(t *testing.T) {
	for _, seed := range wanted(t) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSite(t, seed)
			t.Cleanup(func() { s.report(seed) })
			s.run(seed, *duration)
			s.askForAll()
			s.warm()
			changes := s.settled()
			etcdtest.CheckLedger(t, s.client, strings.TrimSuffix(ledgerPrefix, "/"))
			r := newReplay(s.traffic.started, changes)
			operations := s.traffic.operations
			r.explain(operations)
			s.complain(append(r.problems, tenures(changes)...), operations)
			s.linearizable(r, operations)
			s.memory(r)
			s.complain(takings(s.settled()[len(changes):]), nil)
		})
	}
}

// askForAll asks each allocator for each claim. No answer may be unknown.
func (s *site) askForAll() {
	var claims []ledger.ClaimID
	for _, op := range s.traffic.operations {
		if op.Claim != "" && !slices.Contains(claims, op.Claim) {
			claims = append(claims, op.Claim)
		}
	}
	for i := range s.hosts {
		for _, c := range claims {
			if o := s.traffic.do(s.t.Context(), i, request{Do: "lookup", Claim: c, Timeout: patience}); o.Unknown != "" {
				s.t.Errorf("%s cannot say what %s has, though all is well again: %s", allocatorName(i), c, o.Unknown)
			}
		}
	}
}

// settled waits until the history is complete.
func (s *site) settled() []change {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	last, err := s.client.Get(ctx, ledgerPrefix, append(clientv3.WithLastRev(), clientv3.WithKeysOnly())...)
	s.check(err)
	var revision int64
	for _, kv := range last.Kvs {
		revision = kv.ModRevision
	}
	changes, err := s.history.upTo(ctx, revision)
	s.check(err)
	return changes
}

func (s *site) complain(problems []string, operations []operation) {
	for _, p := range problems {
		s.t.Error(p)
	}
	for _, op := range operations {
		if op.Refusal == broken {
			s.t.Errorf("%v: no ledger may answer so", op)
		}
	}
}

// linearizable checks the answers against the models.
func (s *site) linearizable(r *replay, operations []operation) {
	for name, history := range claimHistories(operations) {
		s.conform(name, claimModel.ToModel(), history)
	}
	for _, id := range []ledger.SpaceID{"domain", "c", "six"} {
		var steps []step
		for _, st := range r.steps {
			if st.space == id {
				steps = append(steps, st)
			}
		}
		s.conform("space "+string(id), newRoom(id, steps).model(), roomHistory(id, steps, operations))
	}
}

// conform checks one history against one model.
func (s *site) conform(name string, model porcupine.Model, history []porcupine.Operation) {
	result, info := porcupine.CheckOperationsVerbose(model, history, patience)
	if result == porcupine.Ok {
		return
	}
	s.t.Errorf("%s: %d operations are not linearizable: %s", name, len(history), result)
	if err := porcupine.VisualizePath(model, info, s.file(name+".html")); err != nil {
		s.t.Error(err)
	}
}

// memory checks that each allocator, once it has the office, knows exactly what the ledger holds. An allocator that
// has lost the office without noticing may remember an older ledger.
func (s *site) memory(r *replay) {
	deadline := time.Now().Add(patience)
	for i := range s.hosts {
		if err := s.traffic.take(s.t.Context(), i); err != nil {
			s.t.Errorf("%s does not take the office, though all is well again: %v", allocatorName(i), err)
			continue
		}
		for _, w := range windows {
			want := expected(w, r)
			for s.traffic.capacity(s.t.Context(), i, w.ID) != want {
				if time.Now().After(deadline) {
					s.t.Errorf("%s holds %+v of pool %s; the ledger %+v", allocatorName(i), s.traffic.capacity(s.t.Context(), i, w.ID), w.ID, want)
					break
				}
				retry.Pause(s.t.Context(), 50*time.Millisecond)
			}
		}
	}
}

// takings returns a problem for each change that does more than take the office.
func takings(changes []change) (problems []string) {
	for _, c := range changes {
		for _, e := range c.events {
			if e.key != "head" {
				problems = append(problems, fmt.Sprintf("revision %d changes %s, though nobody has asked for it", c.revision, e.key))
			}
		}
	}
	return problems
}

// expected counts a pool's blocks and free addresses in the ledger.
func expected(w ledger.Pool, r *replay) outcome {
	free := 1 << (w.CIDR.Addr().BitLen() - w.CIDR.Bits())
	for _, x := range w.Excluded {
		free -= 1 << (x.Addr().BitLen() - x.Bits())
	}
	own := 0
	for _, b := range r.blocks {
		if b.pool == string(w.ID) {
			own++
		}
		if b.space == string(w.Space) && w.CIDR.Overlaps(b.prefix) {
			free -= 1 << (b.prefix.Addr().BitLen() - b.prefix.Bits())
		}
	}
	return outcome{Blocks: own, Free: strconv.Itoa(free)}
}
