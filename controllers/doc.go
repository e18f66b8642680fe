// Package controllers puts the walks together: one manager, whose local cluster is the platform workspace, and whose
// provider shows the workspaces of all tenants that bind the export.
//
//	claim    binds IPClaims              pool     brings IPPools into the ledger
//	class    checks IPClasses            slice    gives every workspace its block of a pool
//	door     answers CREATE              derived  keeps the IPPools of pools made for a scope
//	release  frees blocks whose holder is confirmed to be gone
//	sweep    finds what events missed
//	recover  compares ledger, records and claims, and restores what a lost ledger lacks
//	history  answers which claims had an address
//	capi     gives machines of Cluster API their addresses
//
// These folders of internal are used by most of them:
//
//	resolve  policy, pure                catalog    classes and pools, from the caches
//	live     reads past every cache      directory  path ↔ logical cluster
//	tenants  engages bound workspaces    feed       the events of all workspaces
//	outcome  conditions                  patch      the fewest writes
//	inbox    the ledger's news           record     the IPAllocation of a claim
package controllers
