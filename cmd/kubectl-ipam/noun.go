package main

// noun is what the help says of a group of commands.
type noun struct {
	name, short   string
	long, example string
}

var aboutClaims = noun{
	name: "claim", short: "Claim blocks of addresses, and release them",
	long: `A claim asks for a block of addresses and holds it until the claim is deleted. It belongs
to a namespace of the current workspace. A class decides from which pools the block comes,
unless the claim names a pool.

A claim that cannot be met now waits, and is bound when the cause is gone.`,
	example: `  # claim a /28 by the class "internal", and release it
  kubectl ipam claim create app --class internal --length 28
  kubectl ipam claim release app

  # list the claims of all namespaces
  kubectl ipam claim list -A`,
}

var aboutPools = noun{
	name: "pool", short: "Create, inspect and release pools of address space",
	long: `A pool is address space to claim from. A root pool has a CIDR of its own. The block of a
child pool is carved from a parent pool.

A pool serves the claims that name it, and backs the classes that it names.`,
	example: `  # create a pool behind the class "internal", and show how full it is
  kubectl ipam pool create lab --cidr 10.8.0.0/16 --class internal
  kubectl ipam pool show lab`,
}

var aboutClasses = noun{
	name: "class", short: "Create and inspect classes, the rules for claiming",
	long: `A class says what can be claimed and by which rules: the address family, the lengths of
blocks, the limit of each workspace, and what happens to a block after its release. Admins
create classes in the platform workspace. Tenants claim by them.`,
	example: `  # list the classes that this workspace can claim by
  kubectl ipam class list

  # show the rules of a class, and the pools behind it
  kubectl ipam class show internal`,
}

var aboutAddresses = noun{
	name: "address", short: "Show the state of an address, and its holder",
	long:    `Show whether an address or a block is free, and which claim holds it.`,
	example: `  kubectl ipam address show 10.64.3.7`,
}

var aboutTenants = noun{
	name: "tenant", short: "Make workspaces tenants of the platform",
	long: `A tenant is a workspace that is bound to the API of a platform. Its users claim from the
pools of the platform, and from pools of their own.`,
	example: `  kubectl ipam tenant bind root:team-c`,
}
