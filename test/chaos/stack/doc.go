// Package stack has tenants create, delete and recreate claims, bind and unbind,
// while kcp, the controller and the etcd of its ledger are killed and started again
// by a seeded schedule. See ../README.md.
//
//	traffic   what the tenants do
//	fault     what is killed, and for how long
//	history   what claims have shown, by ../history
package stack
