// Package controllers puts the walks together: one manager whose local cluster
// is the platform workspace, and whose provider shows the workspaces of all
// tenants that bind the export.
//
//	claim    binds IPClaims              pool     brings IPPools into the ledger
//	class    checks IPClasses            release  gives back what is gone, confirmed live
//	sweep    finds what events missed    verify   ledger = records = claims?
//	slice    gives every workspace its block of a pool
//	capi     gives machines of Cluster API their addresses
//	adopt    takes what the ledger has lost from the record
//
//	resolve  policy, pure                catalog    classes and pools, from the caches
//	live     reads past every cache      directory  path ↔ logical cluster
//	tenants  what is bound is engaged    feed       what happens in the workspaces
//	outcome  conditions                  patch      the fewest writes
//	inbox    the ledger's news           record     the IPAllocation of a claim
package controllers
