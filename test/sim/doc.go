// Package sim runs the whole controller in simulated time, against a kcp and an etcd in memory.
//
//	 a seed and a profile ──Draw──▶ Story ◀──Parse── testdata/*.story
//	                                  │
//	                                Play, in a bubble of testing/synctest
//	                                  │
//	tenants, platform ──▶ simkcp.World ◀──▶ process: controllers.New as it is ◀──▶ simetcd.Etcd
//	                                  │
//	                         oracles ──▶ findings, and a trace ──Shrink──▶ a short Story
//
// A [Story] is a script: who does what, and after which pause. [Draw] makes one of a seed, [Parse] reads one. [Play]
// plays it: each actor does its steps in order, beside the other actors. Faults are steps too: kcp unbinds a workspace or
// is restored, etcd is compacted, the weather of the connections changes, the controller is killed.
//
// The oracles know the contract of the API and no mechanism. Some judge each stored change as it comes, others the state at
// rest, which is some minutes after the faults have ended, and the last judges the end, when everything was deleted.
//
// With [Profile.Replicas], one of several controllers leads by a Lease, and kcp asks any of them. A bubble has one
// clock, and none of its goroutines can be stopped. So no replica has a clock of its own, and a replica that stands
// still goes on computing while its requests are held. Some of these arrive after another replica has got the lease.
//
// The same seed makes the same story, and nearly always the same trace: goroutines that are runnable at the same moment
// of simulated time run in any order.
package sim
