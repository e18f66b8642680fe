package v1alpha1

// Condition types.
const (
	// ConditionAllocated is the answer, on pools, claims and allocations: True
	// with ReasonAllocationSucceeded, else False with the reason.
	ConditionAllocated = "Allocated"
	// ConditionReady mirrors Allocated where there is one, and is False on a pool that gives nothing out although it has
	// its block. On a class it says whether claims may use it.
	ConditionReady = "Ready"
	// ConditionReconciling exists, and is True, while somebody else can end the
	// wait: room or a class is missing.
	ConditionReconciling = "Reconciling"
	// ConditionStalled exists, and is True, while the object can never be met as
	// it is written.
	ConditionStalled = "Stalled"
	// ConditionInUse is True on a pool that holds allocations or child pools. Its
	// message names the holders of the same workspace and counts the others.
	ConditionInUse = "InUse"
	// ConditionDraining exists, and is True, on a pool that is being deleted while
	// it is in use, and on a pool whose slices are still in use though their
	// workspaces have given them up.
	ConditionDraining = "Draining"
	// ConditionSliced says, on a pool with spec.slices, whether every admitted
	// workspace has its slice.
	ConditionSliced = "Sliced"
	// ConditionOverlapping exists, and is True, on a root pool of a tenant while addresses of it are also
	// handed out to the same workspace from a pool of another one.
	ConditionOverlapping = "Overlapping"
	// ConditionClassesDiffer exists, and is True, on a pool that names classes which cannot share it.
	ConditionClassesDiffer = "ClassesDiffer"
	// ConditionRunningOut exists, and is True, on a pool of whose addresses more than 90 % are allocated, until
	// that is less than 85 %. Its reason tells a pool that is exhausted from one that is nearly so.
	ConditionRunningOut = "RunningOut"
)

// Reason is the machine-readable cause in a condition. Reasons never change
// their meaning; messages may.
type Reason string

// Reasons of the condition Allocated. The list is closed.
const (
	// ReasonAllocationSucceeded: a block is bound. Nothing to do.
	ReasonAllocationSucceeded Reason = "AllocationSucceeded"
	// ReasonPoolExhausted: no pool tried has a block of that size. Add a pool,
	// release blocks, or claim a smaller one; the claim binds by itself.
	ReasonPoolExhausted Reason = "PoolExhausted"
	// ReasonClassNotFound: no class of that name may be used here. Create the
	// class or correct the name.
	ReasonClassNotFound Reason = "ClassNotFound"
	// ReasonNoDefaultClass: the claim names no class and its family has no
	// default. Name a class, or mark one as the default.
	ReasonNoDefaultClass Reason = "NoDefaultClass"
	// ReasonUnknownProvisioner: the class names a provisioner that is not served
	// here. Correct spec.provisioner of the class.
	ReasonUnknownProvisioner Reason = "UnknownProvisioner"
	// ReasonDefaultConflict: an older class is already the default of the
	// family. Take the annotation off one of the two.
	ReasonDefaultConflict Reason = "DefaultConflict"
	// ReasonQuotaExceeded: the workspace holds its maxPerConsumer, or has as many pools as it may. Release
	// addresses of the same class or pool, delete a pool, or ask the platform to raise the limit.
	ReasonQuotaExceeded Reason = "QuotaExceeded"
	// ReasonNoOfferingPool: the class exists, but no ready pool backs it for
	// this workspace. Add the class to spec.classNames of a pool.
	ReasonNoOfferingPool Reason = "NoOfferingPool"
	// ReasonPoolNotFound: no pool of that name, or none that the selector
	// matches, may be used here. Create the pool, correct the name, or have
	// access granted.
	ReasonPoolNotFound Reason = "PoolNotFound"
	// ReasonPrefixLengthRejected: the length is outside the range of the class, or
	// of the pool that the claim names, or none was given and there is no default.
	// Claim a length in the range that the message states.
	ReasonPrefixLengthRejected Reason = "PrefixLengthRejected"
	// ReasonFamilyMismatch: the claim and its class or pool have different
	// address families. Correct spec.ipFamily or name another class or pool.
	ReasonFamilyMismatch Reason = "FamilyMismatch"
	// ReasonAddressInUse: the requested address is taken. Wait for its release
	// or request another.
	ReasonAddressInUse Reason = "AddressInUse"
	// ReasonAddressOutOfRange: the requested address is in no pool tried.
	// Request one inside a pool.
	ReasonAddressOutOfRange Reason = "AddressOutOfRange"
	// ReasonAddressReserved: every pool that has the requested address reserves or
	// excludes it, in part or whole. Request one outside of what the message names.
	ReasonAddressReserved Reason = "AddressReserved"
	// ReasonAllocationRetained: an allocation of a former claim of this name was
	// retained. Delete that IPAllocation, use another name, or claim with the
	// retainedPolicy Reuse.
	ReasonAllocationRetained Reason = "AllocationRetained"
	// ReasonScopeRolesMissing: the class requires roles that spec.scope does not have. Claim again, with an
	// object for each role that the message lists.
	ReasonScopeRolesMissing Reason = "ScopeRolesMissing"
	// ReasonChainBroken: the class takes its blocks from those of its parents, and one of these classes does
	// not fit. Correct the class that the message names, or use another.
	ReasonChainBroken Reason = "ChainBroken"
	// ReasonTargetRejected: the claim is to hold a range, and its class has no poolPer, so that it has none.
	// Claim a block, or name a class with poolPer.
	ReasonTargetRejected Reason = "TargetRejected"
	// ReasonRangeHeld: another claim holds the range. Delete that one, or use its range: several claims
	// may have blocks in it.
	ReasonRangeHeld Reason = "RangeHeld"
	// ReasonRangeExists: the range of this scope is there already, and is another one than spec.address or
	// spec.prefixLength asks for. Claim without them, or release everything inside the range first.
	ReasonRangeExists Reason = "RangeExists"
	// ReasonRangeNotHeld: a class of the chain has pools only where a claim holds them, and none does for this scope.
	// Correct the name in spec.scope, or claim the ScopeRange first.
	ReasonRangeNotHeld Reason = "RangeNotHeld"
	// ReasonOverlap: the CIDR of this root pool overlaps another root pool.
	// Choose another CIDR, or put both pools in one addressDomain.
	ReasonOverlap Reason = "Overlap"
	// ReasonError: the controller failed at what the message says, and retries.
	// Look at the controller if it persists.
	ReasonError Reason = "Error"
)

// Reasons of other conditions, and of events.
const (
	// ReasonPending: the controller has not answered yet. The schema sets it, with Ready=Unknown, on each new
	// object. Nothing to do but to wait.
	ReasonPending Reason = "Pending"
	// ReasonValidated: the class is sound and claims may use it. Nothing to do.
	ReasonValidated Reason = "Validated"
	// ReasonInUse: the pool holds blocks. Release them before deleting it.
	ReasonInUse Reason = "InUse"
	// ReasonClaimNotStored: the pool holds blocks, one of them of a claim whose CREATE was answered and is not stored. The
	// message says when that block is free. Nothing to do but to wait, or to create the claim again.
	ReasonClaimNotStored Reason = "ClaimNotStored"
	// ReasonUnused: no claim uses the pool, which may be deleted.
	ReasonUnused Reason = "Unused"
	// ReasonBlockInUse: the block returns when the last claim or child pool in it is
	// released. Nothing to do but to release them.
	ReasonBlockInUse Reason = "BlockInUse"
	// ReasonSlicesGiven: every admitted workspace has its slice, or has given it up.
	// Nothing to do.
	ReasonSlicesGiven Reason = "SlicesGiven"
	// ReasonPoolFull: a workspace waits for its slice. Raise spec.slices.maxSlices, or
	// have space released; those who wait are served by themselves, the oldest first.
	ReasonPoolFull Reason = "PoolFull"
	// ReasonNameTaken: a workspace has a pool of its own by the name that its slice
	// is to have. It gets its slice when that pool is deleted.
	ReasonNameTaken Reason = "NameTaken"
	// ReasonForeignSpace: a class or a pool carved from another workspace hands out addresses of this pool as well,
	// and both may be given. Use a CIDR of its own, or claim from one of the two alone.
	ReasonForeignSpace Reason = "ForeignSpace"
	// ReasonUniqueWithinDiffers: the pool names classes that differ in uniqueWithin, and serves none of
	// them. Remove one from spec.classNames.
	ReasonUniqueWithinDiffers Reason = "UniqueWithinDiffers"
	// ReasonNearlyFull: 90 % of the pool's addresses are allocated. Add a pool to its classes, or release blocks.
	ReasonNearlyFull Reason = "NearlyFull"
	// ReasonExhausted: all of the pool's addresses are allocated, and its claims wait. Add a pool to its classes, or
	// release blocks.
	ReasonExhausted Reason = "Exhausted"
	// ReasonRoomAgain, of an event: the pool is no longer exhausted, or no longer nearly full. Nothing to do.
	ReasonRoomAgain Reason = "RoomAgain"
	// ReasonReconciled: what failed with ReasonError has succeeded. Nothing to do.
	ReasonReconciled Reason = "Reconciled"
	// ReasonLeaseExpired: the lease of a retained allocation was over, and its block was
	// released. Nothing to do.
	ReasonLeaseExpired Reason = "LeaseExpired"
	// ReasonPoolCreated: the pool has got its CIDR. Nothing to do.
	ReasonPoolCreated Reason = "PoolCreated"
	// ReasonPoolUpdated: a change of the pool's spec is in force. Nothing to do.
	ReasonPoolUpdated Reason = "PoolUpdated"
)
