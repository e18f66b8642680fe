// Package simkcp is a kcp in memory for simulations. A RoundTripper reaches it without a network, and all its waiting
// is by timers, so it runs in a bubble of testing/synctest.
//
//	a process ──Transport──▶ ┌───────────────────── World ─────────────────────┐
//	a user ────────User────▶ │ route ▶ schema ▶ webhooks ▶ schema ▶ policies ▶ │──▶ tables, one revision
//	                         └─────────────────────────────────────────────────┘        │
//	a process ◀──LIST, WATCH of one workspace, or of all by the virtual workspace ──────┘
//
// A [World] stores objects by logical cluster. It serves LIST, WATCH, CREATE, UPDATE, PATCH and DELETE, prunes,
// defaults and validates by the schemas of package config, evaluates its policies, and calls the webhooks that the
// controller has registered, where their rules and conditions match. The schema of a tenant's workspace is that of
// the APIResourceSchema, and the schema of the platform's is that of the CRD.
//
// A binding that is being deleted serves what it has, admission is asked, and nothing is created. kcp deletes its
// objects kind by kind, and finalizers hold it. An object stays that was stored after kcp listed its kind for the last time. A
// namespace is emptied five seconds after its DELETE. The endpoint slice has the URL of each shard that has a
// binding. [World.Place] puts a workspace on another shard, and [World.Reidentify] gives the export another identity.
//
// A [Transport] is the connection of one process: it delays, loses and refuses requests by a [Fate], holds events
// back, and can be cut. A [User] acts in one workspace at once, without a connection.
//
// A world has no authorization, no quotas, one revision for all shards, and no owners of fields. A server-side apply
// merges maps, replaces lists, and never conflicts. Events are accepted, and not stored. [World.Delay] fails a CREATE
// after its admission, as a quota does.
package simkcp
