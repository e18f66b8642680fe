// Package local runs a kcp and an ipam-controller as processes of this machine, for
// the tests and for `make run`. Both listen on 127.0.0.1 only, keep what they store
// and log in a folder of their own, and can be stopped, killed and started again
// over the same data. A kcp is one server, [KCP], or has two shards, [Shards].
//
// A process dies with the program that started it, however that one ends (on Linux).
// What starts, stops and kills one must not run side by side.
package local
