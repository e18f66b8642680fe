// Package wait keeps waiters in the order in which they are served.
//
// A waiter has a key, a tenant, an age, and things that it waits for. When something becomes of a thing, its owner
// makes a round over its waiters: tenants take turns, and of a tenant the oldest waiter is first.
//
// The package must know neither lock nor clock, and nothing about the things. Its callers guard a list by a lock.
package wait
