// Package tenants provides the workspaces that bind the export, to a manager of
// multicluster-runtime.
//
//	endpoint slice ──▶ an endpoint for each URL: its caches, and a queue of workspaces
//	                       │
//	APIBindings there ─────┴─▶ directory (which are bound)
//	                       └─▶ queue ─▶ settle: is bound what is engaged, and nothing else?
//
// What is bound and what is engaged are compared, workspace by workspace, whenever one of
// them changes, and again after a failure, with backoff. So no failure is final: a list, a
// watch or a controller that fails delays a workspace, and heals by itself.
//
// The caches, the clusters and the event recorders are those of multicluster-provider. Its
// own provider is not used, because it tries each step once: see decision 0017.
package tenants
