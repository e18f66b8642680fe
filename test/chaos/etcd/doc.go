// Package etcd runs clusters of etcd in which each member is a process, so that
// it can be killed, stopped and cut off like one.
package etcd
