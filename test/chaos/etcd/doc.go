// Package etcd runs clusters of etcd in which each member is a process. So a member can be killed, stopped and cut
// off like one.
package etcd
