// Package tenants provides the workspaces that bind the export, to a manager of multicluster-runtime.
//
//	endpoint slice ──▶ an endpoint for each URL: its caches, and a queue of workspaces
//	                       │
//	APIBindings there ─────┴─▶ directory (which are bound)
//	                       └─▶ queue ─▶ settle: are exactly the bound workspaces engaged?
//
// A workspace is checked whenever its bindings or its engagement change, and again after a failure, with backoff: it
// must be engaged if and only if it is bound. So no failure is final: a list, a watch or a controller that fails only
// delays a workspace.
//
// The caches, the clusters and the event recorders are those of multicluster-provider. Its own provider is not used,
// because it tries each step once: see decision 0017.
package tenants
