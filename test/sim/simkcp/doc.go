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
// While a binding is being deleted, its objects are served and admission is asked, but nothing is created. kcp
// deletes the objects kind by kind, and finalizers hold the binding. An object that is stored after kcp listed its
// kind for the last time stays. A namespace is emptied five seconds after its DELETE. The endpoint slice has the URL
// of each shard that has a binding. [World.Place] puts a workspace on another shard, and [World.Reidentify] gives the
// export another identity.
//
// A [Transport] is the connection of one process: it delays, loses and refuses requests by a [Fate], holds events
// back, and can be cut. A [User] acts in one workspace, without a connection and without delay.
//
// A world has no authorization, no quotas and no owners of fields, and one revision for all shards. A server-side
// apply merges maps, replaces lists, and never conflicts. Events are accepted, and not stored. [World.Delay] can fail
// a CREATE after its admission, as a quota does.
package simkcp
