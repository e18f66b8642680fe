// Package capi serves the machines of Cluster API: it is an IPAM provider by the contract v1beta2 of Cluster API, for
// pools that are IPPools or IPClasses.
//
//	IPAddressClaim ──→ IPClaim ──→ (the claim controller, the ledger)
//	      ↑               │
//	  IPAddress ←─────────┘
//
// An IPAddressClaim whose spec.poolRef is of our group gets an IPClaim for one address. The address that the IPClaim is
// given becomes an IPAddress. So quotas, waiting, retaining and release work as for every other claim. This package
// uses the Kubernetes API alone.
//
// [Management] has the IPAddressClaims and IPAddresses, [Claims] has the IPClaims and pools. Both are in one cluster,
// or the latter are in a workspace of kcp, which several management clusters may share: see [Names].
//
// These always hold:
//
//   - An address has at most one IPAddress. The IPClaim is stored before the IPAddress, and deleted after it. A
//     finalizer keeps the IPClaim as long as the IPAddressClaim is there.
//   - An IPAddress keeps its address. If an IPAddress has no IPClaim, as after clusterctl move, an IPClaim for exactly
//     its address is made.
//   - Nothing is deleted because a cache lacks something: the API server is asked. Its answer counts only if it
//     names the object, and if the server is still that of the same management cluster.
package capi
