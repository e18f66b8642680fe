package gen

import (
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Scope is the scope of a claim or a pool.
type Scope ipamv1alpha1.Scope

func (s Scope) claim(claim *ipamv1alpha1.IPClaim) { claim.Spec.Scope = ipamv1alpha1.Scope(s) }
func (s Scope) pool(pool *ipamv1alpha1.IPPool)    { pool.Spec.Scope = ipamv1alpha1.Scope(s) }

// Within returns a scope. Its arguments are a role and the name of an object in turn, such as "network", "vpc-1",
// "location", "ams". The kind of an object is its role with a capital letter.
func Within(rolesAndNames ...string) Scope {
	scope := Scope{}
	for i := 0; i+1 < len(rolesAndNames); i += 2 {
		role := rolesAndNames[i]
		scope[role] = ipamv1alpha1.ScopeRef{
			APIGroup: "networking.example.com", Kind: strings.ToUpper(role[:1]) + role[1:], Name: rolesAndNames[i+1],
		}
	}
	return scope
}

// ForRange makes a claim hold the pool that its class has for its scope.
func ForRange() ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.Target = ipamv1alpha1.TargetScopeRange })
}

// Each calls option for each claim by itself, for example for a scope that no other claim has.
func Each(option func() ClaimOption) ClaimOption { return each(option) }

type each func() ClaimOption

func (e each) claim(claim *ipamv1alpha1.IPClaim) { e().claim(claim) }

// Below makes a class take its blocks from the pools of another one.
func Below(class string) ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.ParentClassName = class })
}

// PoolPer makes a class provide a pool for each combination of the objects of these roles.
func PoolPer(roles ...string) ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.PoolPer = roles })
}

// Held makes a class provide pools only for the claims that hold them.
func Held() ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.Provisioning = ipamv1alpha1.ProvisionHeld })
}

// Number makes a claim ask for this number, and for no other.
func Number(number int64) ClaimOption {
	return claimOption(func(spec *ipamv1alpha1.IPClaimSpec) { spec.Number = &number })
}

// Numbers makes a class show the last bits of its addresses as numbers.
func Numbers(bits int32) ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.Number = &ipamv1alpha1.ClassNumber{Bits: bits} })
}

// UniqueWithin makes a class give each address only once within the objects of these roles.
func UniqueWithin(roles ...string) ClassOption {
	return classOption(func(spec *ipamv1alpha1.IPClassSpec) { spec.UniqueWithin = roles })
}

// Reserves withholds blocks of length unitLength at the edges of a pool, or of each pool that a class makes.
func Reserves(leading, trailing, unitLength int32) interface {
	PoolOption
	ClassOption
} {
	return reserves{Leading: leading, Trailing: trailing, UnitPrefixLength: unitLength}
}

type reserves ipamv1alpha1.PoolReservations

func (r reserves) class(class *ipamv1alpha1.IPClass) {
	class.Spec.Reservations = (*ipamv1alpha1.PoolReservations)(&r)
}

func (r reserves) pool(pool *ipamv1alpha1.IPPool) {
	pool.Spec.Reservations = (*ipamv1alpha1.PoolReservations)(&r)
}
