// Package must ends a test at a call that has to succeed, and shows its error.
package must

import "testing"

// Do fails the test if a call has failed.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
