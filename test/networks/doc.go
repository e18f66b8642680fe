// Package networks is a client of the API that knows only its JSON. It plays a network controller, which gives each
// network a range, each location of a network a range inside of that, and each interface a block of each address
// family.
//
//	Network    GET claim → 404, CREATE {className, target: ScopeRange, scope: {network}}, GET pool
//	Location   the same, with scope {network, location}
//	Interface  a CREATE for each family, and for each further class; DELETE of all if one is refused
//	Check      GET, and compare the text
//	Release    of an interface: GET, DELETE, and at once DELETE of the IPAllocation; of a range: DELETE, GET claim and pool → 404
//
// The client never lists, watches, updates or patches. It believes the answer to CREATE: a claim without a CIDR is a
// failure, and is deleted. Of a refusal it reads the types of the causes, and the kind and name of the object. Like a
// controller, it has a few workers, and repeats a request that got no answer.
package networks
