package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/verify"
)

// oldLedger is the data directory of a ledger in which claim a had 10.0.0.7, and b has it.
func oldLedger(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	server, err := embedetcd.Start(t.Context(), embedetcd.Options{Dir: dir, NoFsync: true})
	must(t, err)
	ledger, err := allocator.Open(t.Context(), server.Client(), allocator.Options{History: time.Hour})
	must(t, err)
	_, err = ledger.Register(t.Context(), allocator.Pool{ID: "p", Cluster: "w", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/24")})
	must(t, err)
	for _, name := range []string{"a", "b"} {
		b, err := ledger.Bind(t.Context(), allocator.Request{
			Pool: "p", Exact: netip.MustParsePrefix("10.0.0.7/32"),
			Holder: allocator.Holder{Claim: allocator.ClaimID("uid-" + name), Cluster: "w", Namespace: "default", Name: name},
		})
		must(t, err)
		if name == "a" {
			must(t, ledger.ReleaseIf(t.Context(), b))
		}
	}
	must(t, errors.Join(ledger.Close(), server.Close()))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// askHistory runs the command history.
func askHistory(t *testing.T, args ...string) (out, says string, err error) {
	t.Helper()
	cmd, stdout, stderr := newCommand(), &bytes.Buffer{}, &bytes.Buffer{}
	cmd.SetArgs(append([]string{"history"}, args...))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// Where no controller runs, the command reads the ledger.
func TestHistory_WithoutAController(t *testing.T) {
	dir := oldLedger(t)
	out, _, err := askHistory(t, "10.0.0.7", "--etcd-data-dir", dir)
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
	out, _, err = askHistory(t, "--claim", "default/a", "-o", "json", "--etcd-data-dir", dir)
	var answer history.Answer
	if decoded := json.Unmarshal([]byte(out), &answer); err != nil || decoded != nil || len(answer.Holders) != 1 || answer.Holders[0].UID != "uid-a" {
		t.Errorf("history -o json = %v, %v\n%s\nwant uid-a alone", err, decoded, out)
	}
	if out, says, err := askHistory(t, "10.0.0.8", "--etcd-data-dir", dir); err != nil || out != "" || !strings.Contains(says, "nobody had it") {
		t.Errorf("history of a free address = %q, %q, %v; want that nobody had it", out, says, err)
	}
}

// Where one runs, it is asked: the ledger is its own.
func TestHistory_OfAController(t *testing.T) {
	dir := oldLedger(t)
	server, err := embedetcd.Start(t.Context(), embedetcd.Options{Dir: dir, NoFsync: true})
	must(t, err)
	defer func() { must(t, server.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	socket := &verify.Server{
		Path: filepath.Join(dir, "verify.sock"),
		Also: map[string]http.Handler{history.Path: &history.Handler{Ledger: allocator.Reader{Client: server.Client()}}},
	}
	go func() { ended <- socket.Start(ctx) }()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	for {
		if _, err := verify.Call(ctx, socket.Path, "none", nil); !errors.Is(err, verify.ErrNobody) {
			break
		}
		must(t, ctx.Err())
	}
	if out, _, err := askHistory(t, "10.0.0.0/24", "--etcd-data-dir", dir); err != nil || !strings.Contains(out, "uid-a") {
		t.Errorf("history = %v\n%s\nwant uid-a", err, out)
	}
	if _, _, err := askHistory(t, "--workspace", "root:one", "--etcd-data-dir", dir); exitCode(err) != exitFault || !strings.Contains(err.Error(), "give the ID") {
		t.Errorf("history of a path that nobody knows: %v; want what to give instead", err)
	}
}

func TestHistory_Usage(t *testing.T) {
	for want, args := range map[string][]string{
		"name an address or a prefix":  {},
		"neither an address nor":       {"10.0.0"},
		"write 10.0.0.0/24":            {"10.0.0.7/24"},
		"such as 2026-03-01T14:05:00Z": {"10.0.0.7", "--at", "yesterday"},
		"how long ago":                 {"10.0.0.7", "--since", "-1h"},
		"give it one of table, json":   {"10.0.0.7", "-o", "yaml"},
		"at most 1 arg":                {"10.0.0.7", "10.0.0.8"},
	} {
		if _, _, err := askHistory(t, args...); exitCode(err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("history %v: %v; want a usage error with %q", args, err, want)
		}
	}
}
