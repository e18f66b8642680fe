package request

import (
	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
)

// Scope is the flag --scope, which is given once for each role.
type Scope []string

// AddFlag adds it to a command; of says whose scope it is.
func (s *Scope) AddFlag(cmd *cobra.Command, of string) {
	cmd.Flags().StringArrayVar((*[]string)(s), "scope", nil, of+", once for each role: network=vpc-1, or network=Network.networking.example.com/vpc-1; without a kind, that is the role with a capital letter")
}

// Parse returns the scope; nil if the flag is not given.
func (s *Scope) Parse() (ipamv1alpha1.Scope, error) {
	if len(*s) == 0 {
		return nil, nil
	}
	scope := ipamv1alpha1.Scope{}
	for _, word := range *s {
		if !plan.ParseScope(word, scope) {
			return nil, exit.Usagef("--scope is %q; write each role once, as ROLE=NAME, ROLE=KIND/NAME or ROLE=KIND.GROUP/NAME, "+
				"such as network=vpc-1 or network=Network.networking.example.com/vpc-1", word)
		}
	}
	return scope, nil
}
