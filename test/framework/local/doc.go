// Package local runs a kcp and an ipam-controller as processes of this machine, for the tests and for `make run`.
// Both listen on 127.0.0.1 only, keep data and log in a folder of their own, and can be stopped, killed and started
// again over the same data. A kcp is one server, [KCP], or has two shards, [Shards].
//
// On Linux, a process dies with the program that started it, however that program ends. Methods that start, stop or
// kill a process must not run at the same time.
package local
