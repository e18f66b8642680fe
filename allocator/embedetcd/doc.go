// Package embedetcd runs an etcd server inside the process: a ledger without an etcd cluster. The data lies in one
// directory on local disk and is written with fsync, so an answered write survives a crash. There is only one member,
// so the data does not survive the loss of the disk. No other package of the programs imports etcd's server.
//
// The server listens nowhere, unless Options.Listen says so. It is reached through
// the client that Server gives out, which calls it directly.
//
// History is compacted and the file defragmented without being asked; see
// Options.QuotaBytes for how large it may get.
package embedetcd
