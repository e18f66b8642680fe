package embedetcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/must"
)

func start(t *testing.T, dir string) (*Server, error) {
	t.Helper()
	return Start(t.Context(), Options{Dir: dir, NoFsync: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

func mustStart(t *testing.T, dir string) *Server {
	t.Helper()
	s := must.Get(start(t, dir))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func put(t *testing.T, s *Server, key, value string) {
	t.Helper()
	must.Get(s.Client().Put(t.Context(), key, value))(t)
}

func TestStart_KeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "as", "needed")
	first := mustStart(t, dir)
	put(t, first, "k", "v")
	must.Do(t, first.Close())
	second := mustStart(t, dir)
	resp, err := second.Client().Get(t.Context(), "k")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "v" {
		t.Errorf("etcd Get = %v, %v; want one key", resp, err)
	}
}

// etcd keeps its log of transactions in memory, for other members. This log does not grow with the size of the
// transactions.
func TestLog_DoesNotGrowWithTheSizeOfTransactions(t *testing.T) {
	const size, puts = 128 << 10, 2000
	s := mustStart(t, t.TempDir())
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, value := heap(), strings.Repeat("x", size)
	for range puts {
		put(t, s, "k", value)
	}
	if grown := int64(heap()) - int64(before); grown > size*puts/2 {
		t.Errorf("%d transactions of %d bytes leave %d bytes in memory, want less than half of their size", puts, size, grown)
	}
}

func TestStart_RunsTwoServersOnOneMachine(t *testing.T) {
	one, two := mustStart(t, t.TempDir()), mustStart(t, t.TempDir())
	put(t, one, "k", "v")
	resp, err := two.Client().Get(t.Context(), "k")
	if err != nil || len(resp.Kvs) != 0 {
		t.Errorf("etcd Get = %v, %v; want no key", resp, err)
	}
}

// wantWords fails the test unless the error says all of this.
func wantWords(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q: %v", w, err)
		}
	}
}

func TestStart_RefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	mustStart(t, dir)
	_, err := start(t, dir)
	wantWords(t, err, dir, "in use by another process")
}

func TestStart_RefusesADirectoryThatAnotherProgramUses(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, mustStart(t, dir).Close())
	lock := must.Get(lockFile(filepath.Join(dir, "member", "snap", "db"), os.O_RDWR))(t)
	defer lock.Close()
	_, err := start(t, dir)
	wantWords(t, err, dir, "in use by another process")
}

// A child process has the files of its parent while it is forked, and with them their locks. A file that the parent has
// unlocked can be locked again nevertheless.
func TestUnlock_UnlocksAFileThatAChildHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock := must.Get(lockFile(path, os.O_CREATE|os.O_RDWR))(t)
	inherited := must.Get(syscall.Dup(int(lock.Fd())))(t)
	defer func() { _ = syscall.Close(inherited) }()
	must.Do(t, unlock(lock))
	again, err := lockFile(path, os.O_RDWR)
	if err != nil {
		t.Fatalf("the file cannot be locked again: %v", err)
	}
	_ = again.Close()
}

// While a child process is forked, it has etcd's files, and with them their locks. Close returns only when the fork is
// over.
func TestClose_WaitsForProcessesThatAreForked(t *testing.T) {
	server := mustStart(t, t.TempDir())
	closed := make(chan error, 1)
	syscall.ForkLock.Lock()
	go func() { closed <- server.Close() }()
	select {
	case <-closed:
		t.Error("Close has returned while a child may have the files of etcd")
	case <-time.After(time.Second):
	}
	syscall.ForkLock.Unlock()
	must.Do(t, <-closed)
}

func TestStart_SaysThatItCannotMakeTheDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	_, err := start(t, filepath.Join(file, "dir"))
	wantWords(t, err, file, "make the data directory")
	_, err = start(t, "")
	wantWords(t, err, "no data directory is given")
}

func TestStart_SaysThatTheDataIsDamaged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"database overwritten": func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, "member", "snap", "db"), 0, 1<<20) },
		"database cut off": func(t *testing.T, dir string) {
			must.Do(t, os.Truncate(filepath.Join(dir, "member", "snap", "db"), 5000))
		},
		"log overwritten": func(t *testing.T, dir string) { overwrite(t, log(t, dir), 300, 200) },
		"log gone": func(t *testing.T, dir string) {
			must.Do(t, os.Remove(log(t, dir)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustStart(t, dir)
			for i := range 50 {
				put(t, s, fmt.Sprint("k", i), strings.Repeat("v", 100))
			}
			must.Do(t, s.Close())
			damage(t, dir)
			_, err := start(t, dir)
			wantWords(t, err, "the data is damaged; restore the directory from a backup")
		})
	}
}

func log(t *testing.T, dir string) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs %v, %v; want at least one", logs, err)
	}
	return logs[0]
}

func overwrite(t *testing.T, path string, from int64, size int) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	must.Get(f.WriteAt(bytes.Repeat([]byte{0xa5}, size), from))(t)
}

// A start that is given up leaves no server behind, and the directory can be used at once.
func TestStart_LeavesNothingBehindWhenGivenUp(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(t.TempDir(), "etcd.sock")
	why := errors.New("the caller has ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // etcd listens before it opens the data
		for _, err := os.Stat(socket); err != nil; _, err = os.Stat(socket) {
			runtime.Gosched()
		}
		cancel(why)
	}()
	s, err := Start(ctx, Options{Dir: dir, Listen: "unix://" + socket, NoFsync: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if s != nil || !errors.Is(err, why) {
		t.Fatalf("Start = %v, %v; want nil, %v", s, err, why)
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket); err == nil {
		conn.Close()
		t.Error("a server listens after its start was given up")
	}
	put(t, mustStart(t, dir), "k", "v")
}

func TestClose_MayBeCalledTwice(t *testing.T) {
	s := mustStart(t, t.TempDir())
	for range 2 {
		must.Do(t, s.Close())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Client().Get(ctx, "k"); err == nil {
		t.Error("a closed server answers")
	}
}
