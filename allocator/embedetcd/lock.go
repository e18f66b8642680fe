package embedetcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir makes the data directory, and locks it for this process. It fails if another process uses etcd's files, or if
// the log is missing. etcd itself would wait silently in both cases.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "ipam.lock"), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	database, err := lockFile(filepath.Join(dir, "member", "snap", "db"), os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return lock, nil
	}
	if err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	err = unlock(database) // etcd takes it from here
	if logs, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal")); len(logs) == 0 {
		err = plain("the write-ahead log is missing", os.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	return lock, nil
}

func lockFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, dirMode&0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("data directory %s is in use by another process", filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlock unlocks a file, and closes it. To close it would not be enough: a child process that is being forked has the
// file, and with it the lock, until it runs its own program.
func unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// awaitForks waits until each child process that is being forked runs its own program. Until then the child has the
// files that etcd has closed, and with them their locks, so that etcd could not be started again.
func awaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}
