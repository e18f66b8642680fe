package embedetcd

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// When the disk is full, the server fails and says so, and keeps the data that was written before. A limit on the size
// of files stands for the full disk: the same system call fails.
func TestFailed_SaysThatTheDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	s := mustStart(t, dir)
	put(t, s, "before", strings.Repeat("v", 1<<20))
	restore := limitFiles(t, 1<<20)
	defer restore()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := s.Client().Put(ctx, "after", strings.Repeat("v", 1<<20))
		answered <- err
	}()
	<-s.Failed()
	cancel()
	if err := <-answered; err == nil {
		t.Error("a write that failed was answered")
	}
	wantWords(t, s.Err(), "the disk is full; make room and start again")
	must.Do(t, s.Close())
	restore()
	rescued := t.TempDir()
	must.Do(t, os.CopyFS(rescued, os.DirFS(dir)))
	again := mustStart(t, rescued)
	resp, err := again.Client().Get(t.Context(), "before")
	if err != nil || len(resp.Kvs) != 1 {
		t.Errorf("etcd Get = %v, %v; want one key", resp, err)
	}
}

// limitFiles makes writes beyond a size fail, in the whole process.
func limitFiles(t *testing.T, size uint64) (restore func()) {
	t.Helper()
	var old syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}))
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Errorf("Setrlimit: %v", err)
		}
	}
}
