// Package must ends a test if a call does not succeed, or does not fail with the expected error, and shows its error.
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

// Ends calls end when the test has ended, and fails the test if end fails.
func Ends(t testing.TB, end func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

// Get returns the value of a call, through a function that fails the test if the call has failed:
//
//	data := must.Get(os.ReadFile(name))(t)
func Get[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Be fails the test unless the error of a call is want. If want is nil, the call must have succeeded.
func Be(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// Fail does the same as Be, for a call that also returns a value:
//
//	must.Fail(l.Bind(ctx, request))(t, ledger.ErrBusy)
func Fail[T any](_ T, err error) func(t testing.TB, want error) {
	return func(t testing.TB, want error) {
		t.Helper()
		Be(t, err, want)
	}
}
