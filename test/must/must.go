// Package must ends a test at a call that has to succeed, or to fail with an error, and shows how it ended.
package must

import (
	"errors"
	"testing"
)

// Do fails the test if a call has failed.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Ends calls end when the test has ended, and fails the test if the call fails.
func Ends(t testing.TB, end func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

// Get returns the value of a call, by a function that fails the test if the call has failed:
//
//	data := must.Get(os.ReadFile(name))(t)
func Get[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Be fails the test unless a call has failed with an error, or has not failed, if that is nil.
func Be(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// Fail does the same for a call that returns a value, too:
//
//	must.Fail(l.Bind(ctx, request))(t, ledger.ErrBusy)
func Fail[T any](_ T, err error) func(t testing.TB, want error) {
	return func(t testing.TB, want error) {
		t.Helper()
		Be(t, err, want)
	}
}
