package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/must"
)

// command runs the program with arguments, and returns its stdout and its stderr.
func command(ctx context.Context, args ...string) (out, says string, err error) {
	cmd, stdout, stderr := newCommand(), &bytes.Buffer{}, &bytes.Buffer{}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// mustRun runs the program with arguments, and returns its stdout.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, says, err := command(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, says)
	}
	return out
}

// ledgerIn starts an etcd on a directory, which listens at a socket.
func ledgerIn(t *testing.T, dir, socket string) *embedetcd.Server {
	t.Helper()
	server := must.Get(embedetcd.Start(t.Context(), embedetcd.Options{Dir: dir, Listen: socket, NoFsync: true}))(t)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// listening starts an etcd in a new directory. It returns the directory, and the socket at which the etcd listens.
func listening(t *testing.T) (dir, socket string, _ *embedetcd.Server) {
	t.Helper()
	dir = t.TempDir()
	socket = "unix://" + filepath.Join(dir, "etcd.sock")
	return dir, socket, ledgerIn(t, filepath.Join(dir, "ledger"), socket)
}

// A backup that is written to a file or to stdout while the ledger is in use is restored whole. It is never restored
// over a ledger.
func TestBackup_IsRestored(t *testing.T) {
	dir, socket, server := listening(t)
	must.Get(server.Client().Put(t.Context(), "/ipam/v1/kept", "kept"))(t)
	must.Get(server.Client().Put(t.Context(), "/ipam/v1/ledger", "the former ID"))(t)
	file, piped := filepath.Join(dir, "file.db"), filepath.Join(dir, "piped.db")
	mustRun(t, "backup", file, "--etcd-listen-client-url", socket)
	write(t, piped, mustRun(t, "backup", "-", "--etcd-listen-client-url", socket))
	for _, from := range []string{file, piped} {
		to := from + ".ledger"
		mustRun(t, "restore", from, "--etcd-data-dir", to)
		restored := ledgerIn(t, to, "").Client()
		got, err := restored.Get(t.Context(), "/ipam/v1/kept")
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "kept" {
			t.Errorf("restored from %s is %v, %v; want the value that was put", from, got, err)
		}
		id, err := restored.Get(t.Context(), "/ipam/v1/ledger")
		if err != nil || len(id.Kvs) != 1 || string(id.Kvs[0].Value) == "the former ID" {
			t.Errorf("the ID of the ledger is %v, %v; want another one", id, err)
		}
		if _, _, err := command(t.Context(), "restore", from, "--etcd-data-dir", to); err == nil {
			t.Error("a ledger that is there was restored over; want an error")
		}
	}
}

// If no controller runs, the command copies the ledger in a directory. If one runs there, the controller copies it.
func TestBackup_CopiesTheLedgerOfADirectory(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "ledger")
	server := must.Get(embedetcd.Start(t.Context(), embedetcd.Options{Dir: data, NoFsync: true}))(t)
	must.Get(server.Client().Put(t.Context(), "/ipam/v1/ledger", "kept"))(t)
	must.Do(t, server.Close())
	file, restored := filepath.Join(dir, "file.db"), filepath.Join(dir, "restored")
	mustRun(t, "backup", file, "--etcd-data-dir", data)
	mustRun(t, "restore", file, "--etcd-data-dir", restored)
	if got, err := ledgerIn(t, restored, "").Client().Get(t.Context(), "/ipam/v1/ledger"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("the copy of a directory has %v, %v; want the value that was put", got, err)
	}

	sends := func(text string, fails bool) string {
		socket := &recover.Server{Path: filepath.Join(data, "verify.sock"), Also: map[string]http.Handler{
			controllers.SnapshotPath: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(text))
				if fails {
					panic(http.ErrAbortHandler)
				}
			}),
		}}
		defer served(t, socket)()
		out, _, err := command(t.Context(), "backup", "-", "--etcd-data-dir", data)
		if (err != nil) != fails {
			t.Errorf("a backup by a controller that fails: %t ends with %v", fails, err)
		}
		return out
	}
	if got := sends("whole", false); got != "whole" {
		t.Errorf("the controller's snapshot is %q; want it as it was sent", got)
	}
	sends("half", true)
	if _, _, err := command(t.Context(), "backup", filepath.Join(dir, "never.db"), "--etcd-data-dir", filepath.Join(dir, "nothing")); err == nil {
		t.Error("a backup of a directory that is not there succeeded; want an error")
	}
}

// A backup that was cut short is not restored, and a backup that fails leaves no file.
func TestBackup_IsWholeOrRefused(t *testing.T) {
	dir, socket, _ := listening(t)
	file := filepath.Join(dir, "file.db")
	mustRun(t, "backup", file, "--etcd-listen-client-url", socket)
	info := must.Get(os.Stat(file))(t)
	must.Do(t, os.Truncate(file, info.Size()-512))
	if _, _, err := command(t.Context(), "restore", file, "--etcd-data-dir", filepath.Join(dir, "restored")); err == nil {
		t.Error("half a snapshot was restored; want an error")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := filepath.Join(dir, "never.db")
	if _, _, err := command(ctx, "backup", never, "--etcd-listen-client-url", socket); err == nil {
		t.Error("a backup without an answer succeeded; want an error")
	}
	if left, err := filepath.Glob(never + "*"); err != nil || len(left) > 0 {
		t.Errorf("a failed backup leaves %v, %v; want nothing", left, err)
	}
}

// If two backups to the same name run at once, as when a timer starts one before a slow one has ended, each writes into
// a file of its own.
func TestBackup_LeavesAParallelBackupAlone(t *testing.T) {
	dir, socket, _ := listening(t)
	file := filepath.Join(dir, "file.db")
	other := must.Get(openPart(file))(t)
	defer other.Close()
	must.Get(other.WriteString("begun before"))(t)
	mustRun(t, "backup", file, "--etcd-listen-client-url", socket)
	must.Get(other.WriteString(", and ended after"))(t)
	mustRun(t, "restore", file, "--etcd-data-dir", filepath.Join(dir, "restored")) // it must be whole
	if got := string(must.Get(os.ReadFile(other.Name()))(t)); got != "begun before, and ended after" {
		t.Errorf("the other backup has written %q", got)
	}
}
