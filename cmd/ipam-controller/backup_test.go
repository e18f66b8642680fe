package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/test/must"
)

// command runs the program with arguments, and returns what it prints.
func command(t *testing.T, args ...string) (*bytes.Buffer, error) {
	t.Helper()
	cmd, out := newCommand(), &bytes.Buffer{}
	cmd.SetArgs(args)
	cmd.SetOut(out)
	return out, cmd.ExecuteContext(t.Context())
}

// ledgerIn starts an etcd on a directory, which listens at a socket.
func ledgerIn(t *testing.T, dir, socket string) *embedetcd.Server {
	t.Helper()
	server := must.Get(embedetcd.Start(t.Context(), embedetcd.Options{Dir: dir, Listen: socket, NoFsync: true}))(t)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// What is written to a file or to stdout while the ledger is used is restored whole, and never over a ledger.
func TestBackup_IsRestored(t *testing.T) {
	dir := t.TempDir()
	socket := "unix://" + filepath.Join(dir, "etcd.sock")
	server := ledgerIn(t, filepath.Join(dir, "ledger"), socket)
	must.Get(server.Client().Put(t.Context(), "/ipam/v1/ledger", "kept"))(t)
	file, piped := filepath.Join(dir, "file.db"), filepath.Join(dir, "piped.db")
	must.Get(command(t, "backup", file, "--etcd-listen-client-url", socket))(t)
	out := must.Get(command(t, "backup", "-", "--etcd-listen-client-url", socket))(t)
	must.Do(t, os.WriteFile(piped, out.Bytes(), 0o600))
	for _, from := range []string{file, piped} {
		to := from + ".ledger"
		must.Get(command(t, "restore", from, "--etcd-data-dir", to))(t)
		got, err := ledgerIn(t, to, "").Client().Get(t.Context(), "/ipam/v1/ledger")
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "kept" {
			t.Errorf("restored from %s is %v, %v; want the value that was put", from, got, err)
		}
		if _, err := command(t, "restore", from, "--etcd-data-dir", to); err == nil {
			t.Error("a ledger that is there was restored over; want an error")
		}
	}
}

// A file is never half a backup: one that was cut short is not restored, and a failed backup leaves none.
func TestBackup_IsWhole(t *testing.T) {
	dir := t.TempDir()
	socket := "unix://" + filepath.Join(dir, "etcd.sock")
	ledgerIn(t, filepath.Join(dir, "ledger"), socket)
	file := filepath.Join(dir, "file.db")
	must.Get(command(t, "backup", file, "--etcd-listen-client-url", socket))(t)
	info := must.Get(os.Stat(file))(t)
	must.Do(t, os.Truncate(file, info.Size()-512))
	if _, err := command(t, "restore", file, "--etcd-data-dir", filepath.Join(dir, "restored")); err == nil {
		t.Error("half a snapshot was restored; want an error")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd, never := newCommand(), filepath.Join(dir, "never.db")
	cmd.SetArgs([]string{"backup", never, "--etcd-listen-client-url", socket})
	if err := cmd.ExecuteContext(ctx); err == nil {
		t.Error("a backup without an answer succeeded; want an error")
	}
	if left, err := filepath.Glob(never + "*"); err != nil || len(left) > 0 {
		t.Errorf("a failed backup leaves %v, %v; want nothing", left, err)
	}
}

// Two backups to one name that run at once, as a slow one and the next of a timer, do not write into one file.
func TestBackup_LeavesAnotherAlone(t *testing.T) {
	dir := t.TempDir()
	socket := "unix://" + filepath.Join(dir, "etcd.sock")
	ledgerIn(t, filepath.Join(dir, "ledger"), socket)
	file, whole := filepath.Join(dir, "file.db"), filepath.Join(dir, "whole.db")
	must.Get(command(t, "backup", whole, "--etcd-listen-client-url", socket))(t)
	want := must.Get(os.ReadFile(whole))(t)
	other := must.Get(openPart(file))(t)
	defer other.Close()
	must.Get(other.WriteString("begun before"))(t)
	must.Get(command(t, "backup", file, "--etcd-listen-client-url", socket))(t)
	must.Get(other.WriteString(", and ended after"))(t)
	if got := must.Get(os.ReadFile(file))(t); len(got) != len(want) {
		t.Errorf("the backup has %d bytes, want %d", len(got), len(want))
	}
	if got := string(must.Get(os.ReadFile(other.Name()))(t)); got != "begun before, and ended after" {
		t.Errorf("the other backup has written %q", got)
	}
}

func TestBackup_RefusesAnEmptyAddress(t *testing.T) {
	for _, flag := range []string{"--etcd-listen-client-url=", "--etcd-servers="} {
		file := filepath.Join(t.TempDir(), "file.db")
		if _, err := command(t, "backup", file, flag); err == nil {
			t.Errorf("backup %s succeeded, want an error", flag)
		}
	}
}
