// Package mutation breaks the allocator and the controllers on purpose, a line at a
// time, to show that their tests notice.
package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is the code with a fragment of one file replaced.
type Mutant struct {
	// Name says what is broken.
	Name string
	// File is the file, from the root of the module.
	File string
	// Old is the fragment, which must be in the file once; New replaces it.
	Old, New string
	// Suite has to notice. Default: one of those of the allocator.
	Suite Suite
}

// Mutants are the ones that must not survive.
var Mutants = []Mutant{
	{
		Name: "the compare of the head is broken",
		File: "allocator/internal/store/head.go",
		Old:  "Cmps(At(key, h.Revision), clientv3.Compare(clientv3.Value(key), \"=\", h.Value))",
		New:  "Cmps(clientv3.Compare(clientv3.ModRevision(key), \">\", h.Revision-1))",
	},
	{
		Name: "the compare of the claim's key is skipped",
		File: "allocator/bind.go",
		Old:  "sh.Ifs = append(sh.Ifs, store.Absent(key))\n",
		New:  "\n",
	},
	{
		Name: "a flat group compares no more than the head",
		File: "allocator/internal/engine/commit.go",
		Old:  "ifs, then = append(ifs, partIfs...), append(then, partThen...)\n",
		New:  "then = append(then, partThen...)\n",
	},
	{
		Name: "a reservation is confirmed whoever else was answered with it",
		File: "allocator/reserve.go",
		Old:  "!c.Certain && (h.Shared || !sameSecond(h.BoundAt, c.Answered))",
		New:  "false",
	},
	{
		Name: "a claim with a block is given a second one by its reservation",
		File: "allocator/reserve.go",
		Old:  "Ifs: store.Cmps(store.At(block, c.old.Revision), store.Absent(claim)),",
		New:  "Ifs: store.Cmps(store.At(block, c.old.Revision)),",
	},
	{
		Name: "a replica reserves where claims wait at another",
		File: "allocator/internal/space/space.go",
		Old:  "return s.Marked != \"\" && s.Marked != s.Table.Writer",
		New:  "return false",
	},
	{
		Name: "a block that another writer has bound is not taken in the index",
		File: "allocator/internal/space/apply.go",
		Old:  "if e.Created {\n\t\ts.Add(e.Prefix)\n",
		New:  "if e.Created {\n",
	},
	{
		Name: "a block that another writer has freed is not put back into the index",
		File: "allocator/internal/space/apply.go",
		Old:  "if !e.Put {\n\t\ts.remove(e.Prefix)\n",
		New:  "if !e.Put {\n",
	},
	{
		Name: "an unknown outcome is settled by a read, without putting the head",
		File: "allocator/internal/engine/settle.go",
		Old:  "If(f.Same...).Then(store.Put(f.Key, f.Value)).Else(store.Get(f.Key))",
		New:  "If(f.Same...).Then(store.Get(f.Key)).Else(store.Get(f.Key))",
	},
	{
		Name: "a bind whose outcome is in doubt is tried again",
		File: "allocator/bind.go",
		Old:  "b.uncertain = true",
		New:  "_ = b.uncertain",
	},
	{
		Name: "a refusal is not confirmed by a transaction",
		File: "allocator/bind.go",
		Old:  "return sh, nil //nolint:nilerr // the refusal is the answer once the transaction confirms it",
		New:  "return engine.Share{}, b.refusal",
	},
	{
		Name: "a claim is planned behind any transaction in flight",
		File: "allocator/internal/engine/ahead.go",
		Old:  "if !g.mixed && s.losses == 0",
		New:  "if s.losses == 0",
	},
	{
		Name: "a limit does not count what is in flight",
		File: "allocator/bind.go",
		Old:  "unbounded := b.request.Limits == Limits{} && !b.request.adopts",
		New:  "unbounded := !b.request.adopts",
	},
	{
		Name: "what was planned behind a lost transaction keeps its room",
		File: "allocator/internal/engine/ahead.go",
		Old:  "if err := c.op.Lost(s, Loss{Kind: Unsent}); !errors.Is(err, ErrAgain) {",
		New:  "if err := error(ErrAgain); !errors.Is(err, ErrAgain) {",
	},
	{
		Name: "changes of a frozen space are counted",
		File: "allocator/internal/engine/batch.go",
		Old:  "if s.Room.Pools.Frozen() < space.Untrusted {\n\t\tg.stride = 1\n",
		New:  "if s.Room.Pools.Frozen() >= space.NotFrozen {\n\t\tg.stride = 1\n",
	},
	{
		Name: "a frozen pool is forgotten when the ledger is read again",
		File: "allocator/internal/store/codec.go",
		Old:  "State: v.State, Frozen: v.Frozen,",
		New:  "State: v.State,",
	},
	{
		Name: "a head that the watch has skipped is not missed",
		File: "allocator/internal/engine/health.go",
		Old:  "next.Version != seen.Version+1",
		New:  "next.Version == 0",
	},
	{
		Name: "the retained block of another name is reused",
		File: "allocator/retain.go",
		Old:  "|| former != s.Holder ||",
		New:  "||",
	},
	{
		Name:  "a retained block is freed while a CREATE may succeed that was told it",
		File:  "controllers/release/settle.go",
		Old:   "if over && reservation.InFlight(o.block, c.clock.Now()) {",
		New:   "if over && false {",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name: "a cooling block is given to another",
		File: "allocator/internal/space/cooling.go",
		Old:  "string(h.Cluster) + \"\\x00\" + h.Namespace + \"\\x00\" + h.Name",
		New:  "string(h.Cluster)",
	},
	{
		Name: "a cooldown ends before its time",
		File: "allocator/internal/engine/cooldown.go",
		Old:  "d.Until > now {",
		New:  "d.Until > now+1000 {",
	},
	{
		Name:  "a block is freed by the word of a server that has not its record",
		File:  "controllers/release/witness.go",
		Old:   "exactly(record)); err != nil {",
		New:   "exactly(record)); err != nil && false {",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "what a list left out is freed without the brake of the sweep",
		File:  "controllers/release/controller.go",
		Old:   "return c.missed(o.Claim) && !c.HasDeparted(o.Cluster)",
		New:   "return false",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "the holder of a block is looked up by the name in a hint",
		File:  "controllers/release/settle.go",
		Old:   "return holding(block), nil",
		New:   "o := holding(block); o.Holder = h; return o, nil",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a census from before a block was bound speaks of its holder",
		File:  "controllers/release/census.go",
		Old:   "return missed, ok && o.revision <= missed.revision",
		New:   "return missed, ok",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name: "a release leaves no record in the history",
		File: "allocator/release.go",
		Old:  "Look: []string{block}, Farewell: f.farewell.record}",
		New:  "Look: []string{block}}",
	},
	{
		Name: "of neighbours that are released together only the last is recorded",
		File: "allocator/internal/engine/part.go",
		Old:  "append(farewells, sh.Farewell)",
		New:  "[]*store.Farewell{sh.Farewell}",
	},
	{
		Name: "a release that fails with its neighbours is not tried alone",
		File: "allocator/internal/engine/part.go",
		Old:  "why: Loss{Kind: Overtaken}",
		New:  "why: Loss{Kind: Refuted}",
	},
	{
		Name: "a pool is drained whose space has lost changes",
		File: "allocator/edit.go",
		Old:  "s.Room.Pools.Frozen() == space.LostChanges {",
		New:  "s.Room.Pools.Frozen() > space.LostChanges {",
	},
	{
		Name: "two reservations of one ID show the same second",
		File: "allocator/internal/space/reservations.go",
		Old:  "return second(last).Add(time.Second)",
		New:  "return now",
	},
	{
		Name:  "a block passes to a claim that shows its prefix in another domain",
		File:  "controllers/release/reservation.go",
		Old:   "own.Space != o.block.Space",
		New:   "false",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a block is freed because a cache shows no claim with it",
		File:  "controllers/claim/bind.go",
		Old:   "(now == nil || now.Status.AllocatedCIDR != \"\") {",
		New:   "(now != nil && false) {",
		Suite: Suite{Package: "./controllers/claim"},
	},
	{
		Name:  "a record counts for a claim that it does not name",
		File:  "controllers/internal/record/record.go",
		Old:   "holder == claim.Name",
		New:   "holder != \"\"",
		Suite: Suite{Package: "./controllers/internal/record"},
	},
}

// Suite are the tests that are to notice.
type Suite struct {
	Package string
	Args    []string // of the test binary
}

// Make writes the mutant's file into dir and returns the overlay that has the Go
// command use it. It is an error if the fragment is not there once: then the code
// has changed, and the mutant has to follow.
func (m Mutant) Make(root, dir string) (overlay string, err error) {
	path := filepath.Join(root, m.File)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return "", fmt.Errorf("%q: %s holds this %d times and must hold it once: %q", m.Name, m.File, n, m.Old)
	}
	broken := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(broken, bytes.Replace(source, []byte(m.Old), []byte(m.New), 1), 0o600); err != nil {
		return "", err
	}
	config, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, config, 0o600)
}

// Survives runs a suite on the mutant made in dir and reports whether it passes.
// A mutant that does not compile is an error.
func (m Mutant) Survives(ctx context.Context, root, dir string, s Suite) (alive bool, output []byte, err error) {
	overlay, err := m.Make(root, dir)
	if err != nil {
		return false, nil, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-c", "-o", filepath.Join(dir, "suite.test"), s.Package)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return false, out, fmt.Errorf("%q does not compile: %w", m.Name, err)
	}
	test := exec.CommandContext(ctx, filepath.Join(dir, "suite.test"), s.Args...)
	test.Dir = filepath.Join(root, s.Package)
	output, err = test.CombinedOutput()
	return err == nil, output, nil
}
