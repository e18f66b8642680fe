// Package capi serves the machines of Cluster API: it is an IPAM provider of its contract
// v1beta2, for pools that are IPPools or IPClasses.
//
//	IPAddressClaim ──→ IPClaim ──→ (the claim controller, the ledger)
//	      ↑               │
//	  IPAddress ←─────────┘
//
// An IPAddressClaim whose spec.poolRef is of our group gets an IPClaim of one address, and
// what that one is answered becomes its IPAddress. So quotas, waiting, retaining and release
// are those of every claim. This package speaks the Kubernetes API alone.
//
// [Management] has the IPAddressClaims and IPAddresses, [Claims] the IPClaims and pools: in the same
// cluster, or in a workspace of kcp that several management clusters may share: see [Names].
//
// What holds at all times:
//
//   - An address has one IPAddress at most. The IPClaim is stored before the IPAddress, and
//     deleted after it. A finalizer keeps it for as long as the IPAddressClaim is there.
//   - An IPAddress keeps its address. If it is there without its IPClaim, as after
//     clusterctl move, an IPClaim of exactly that address is made.
//   - Nothing is deleted because a cache lacks something: the API server is asked. Its answer
//     counts if it names the object, and if it is still that of the same management cluster.
package capi
