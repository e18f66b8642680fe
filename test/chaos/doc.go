// Package chaos lets three allocators, each a process, work on the same pools in an etcd of three members. Meanwhile
// a seeded schedule kills, stops, cuts off and slows them. See README.md.
//
//	traffic    what the callers ask of the allocators
//	fault      what happens to the processes and to the connections between them
//	model      what a ledger may answer
//	validate   whether it did, by what was answered and by the ledger's own history
//	report     what is left behind when it did not
package chaos
