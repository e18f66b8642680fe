package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps a second run off the data of this one. The system gives the lock back
// when the program ends, however it ends.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another run holds %s: stop it first: %w", file, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
