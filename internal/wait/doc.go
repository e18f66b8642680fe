// Package wait keeps waiters in the order in which they are served.
//
// A waiter has a key, a tenant, an age, and things that it waits for. When a thing changes, the owner of the list makes
// a round over the waiters for that thing: tenants take turns, and the waiters of one tenant come oldest first.
//
// The package must know no lock, no clock, and nothing about the things. Its callers guard a list by a lock.
package wait
