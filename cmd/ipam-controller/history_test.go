package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/must"
)

// oldLedger returns the data directory of a ledger in which claim a had 10.0.0.7, and claim b has it now.
func oldLedger(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	server := ledgerIn(t, dir, "")
	alloc := must.Get(allocator.Open(t.Context(), server.Client(), allocator.Options{History: time.Hour}))(t)
	must.Get(alloc.Pools().Register(t.Context(), ledger.Pool{ID: "p", Cluster: "w", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/24")}))(t)
	for _, name := range []string{"a", "b"} {
		b := must.Get(alloc.Bind(t.Context(), ledger.Request{
			Pool: "p", Exact: netip.MustParsePrefix("10.0.0.7/32"),
			Holder: ledger.Holder{Claim: ledger.ClaimID("uid-" + name), Cluster: "w", Namespace: "default", Name: name},
		}))(t)
		if name == "a" {
			must.Do(t, alloc.ReleaseFor(t.Context(), b, ledger.CauseReleased))
		}
	}
	must.Do(t, errors.Join(alloc.Close(), server.Close()))
	return dir
}

// If no controller runs, the command reads the ledger itself.
func TestHistory_ReadsTheLedgerWithoutAController(t *testing.T) {
	dir := oldLedger(t)
	out, _, err := command(t.Context(), "history", "10.0.0.7", "--etcd-data-dir", dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 {
		t.Fatalf("history = %v\n%s\nwant a head and two holders", err, out)
	}
	for i, words := range [][]string{{"PREFIX", "UNTIL", "STATE"}, {"10.0.0.7/32", "default/a", "uid-a", "Released"}, {"10.0.0.7/32", "default/b", "uid-b", "bound"}} {
		for _, word := range words {
			if !strings.Contains(lines[i], word) {
				t.Errorf("line %d is %q, want %s in it", i, lines[i], word)
			}
		}
	}
	out, _, err = command(t.Context(), "history", "--claim", "default/a", "-o", "json", "--etcd-data-dir", dir)
	var answer history.Answer
	if decoded := json.Unmarshal([]byte(out), &answer); err != nil || decoded != nil || len(answer.Holders) != 1 || answer.Holders[0].UID != "uid-a" {
		t.Errorf("history -o json = %v, %v\n%s\nwant uid-a alone", err, decoded, out)
	}
	if out, says, err := command(t.Context(), "history", "10.0.0.8", "--etcd-data-dir", dir); err != nil || out != "" || !strings.Contains(says, "the ledger knows no holder") {
		t.Errorf("history of a free address = %q, %q, %v; want that no holder is known", out, says, err)
	}
}

// serveHistory serves the history of the ledger in a directory as a controller does, until stop is called.
func serveHistory(t *testing.T, dir string) (server *embedetcd.Server, stop func()) {
	t.Helper()
	server = ledgerIn(t, dir, "")
	reader := allocator.Reader{Client: server.Client()}
	socket := &recover.Server{Path: filepath.Join(dir, "verify.sock"), Also: map[string]http.Handler{
		history.Path: history.Handler(reader, nil), history.FollowPath: history.FollowHandler(reader, nil),
	}}
	end := served(t, socket)
	return server, func() {
		end()
		must.Do(t, server.Close())
	}
}

// served serves at a socket until stop is called.
func served(t *testing.T, socket *recover.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- socket.Start(ctx) }()
	for {
		if _, err := recover.Call(ctx, socket.Path, "none", nil); !errors.Is(err, recover.ErrNobody) {
			break
		}
		must.Do(t, ctx.Err())
	}
	return func() {
		cancel()
		must.Do(t, <-ended)
	}
}

// If a controller runs, the command asks the controller, as it has the ledger open.
func TestHistory_AsksTheRunningController(t *testing.T) {
	dir := oldLedger(t)
	_, stop := serveHistory(t, dir)
	defer stop()
	if out, _, err := command(t.Context(), "history", "10.0.0.0/24", "--etcd-data-dir", dir); err != nil || !strings.Contains(out, "uid-a") {
		t.Errorf("history = %v\n%s\nwant uid-a", err, out)
	}
	if _, _, err := command(t.Context(), "history", "--workspace", "root:one", "--etcd-data-dir", dir); exitCode(err) != exitFault || !strings.Contains(err.Error(), "give the ID") {
		t.Errorf("history of an unknown path: %v; want what to give instead", err)
	}
}

// until is a writer that calls done once this number of lines was written.
type until struct {
	bytes.Buffer
	lines int
	done  func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if strings.Count(u.String(), "\n") >= u.lines {
		u.done()
	}
	return n, err
}

// follow runs the command history --follow until it has printed this number of lines.
func follow(t *testing.T, lines int, args ...string) (events []history.Line, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, out := newCommand(), &until{lines: lines, done: cancel}
	cmd.SetArgs(append([]string{"history", "--follow", "-o", "json"}, args...))
	cmd.SetOut(out)
	err = cmd.ExecuteContext(ctx)
	for text := range strings.Lines(out.String()) {
		var line history.Line
		must.Do(t, json.Unmarshal([]byte(text), &line))
		events = append(events, line)
	}
	return events, err
}

// A stream has the same events from a controller and from the ledger, and can be resumed.
func TestHistory_FollowsAndResumes(t *testing.T) {
	dir := oldLedger(t)
	check := func(where string) {
		t.Helper()
		events, err := follow(t, 3, "--from-revision", "1", "--etcd-data-dir", dir)
		var told []string
		for _, e := range events {
			told = append(told, string(e.Event)+" "+e.Holder.UID)
		}
		if err != nil || strings.Join(told, ", ") != "Allocated uid-a, Released uid-a, Allocated uid-b" {
			t.Fatalf("%s: --follow = %v, and tells %v; want all that has happened", where, err, told)
		}
		if !events[0].Last {
			t.Errorf("%s: the first event is not the last of its revision: %+v", where, events[0])
		}
		rest, err := follow(t, 1, "--from-revision", fmt.Sprint(events[1].Revision+1), "--etcd-data-dir", dir)
		if err != nil || len(rest) != 1 || rest[0].Revision != events[2].Revision || rest[0].Holder.UID != "uid-b" {
			t.Errorf("%s: resumed: %v, %+v; want uid-b alone", where, err, rest)
		}
	}
	check("without a controller")
	server, stop := serveHistory(t, dir)
	defer stop()
	check("of a controller")
	now := must.Get(server.Client().Get(t.Context(), "any"))(t)
	must.Get(server.Client().Compact(t.Context(), now.Header.Revision))(t)
	want := fmt.Sprintf("--from-revision %d", now.Header.Revision+1)
	if _, err := follow(t, 1, "--from-revision", "1", "--etcd-data-dir", dir); exitCode(err) != exitFault || !strings.Contains(err.Error(), want) {
		t.Errorf("--follow from what was compacted: %v; want how to go on, %s", err, want)
	}
}
