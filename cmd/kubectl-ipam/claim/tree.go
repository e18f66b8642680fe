package claim

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newTree(s *session.Session) *cobra.Command {
	out := &output.Report{}
	cmd := &cobra.Command{
		Use:   "tree NAME",
		Short: "Draw what a claim depends on: its class, its pool, its record and its owner",
		Long: `Draw a claim as a tree, with the state of each object that it depends on: the class, the pool
with those that it is carved from, the IPAllocation that records the block, and the object
that uses it. An object that you cannot read, such as a pool of the platform, is named only.`,
		Example: `  # the same for a program
  kubectl ipam claim tree app -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			here, err := s.Here()
			if err != nil {
				return err
			}
			claim, err := get(cmd.Context(), here, args[0])
			if err != nil {
				return err
			}
			root, err := treeOf(cmd.Context(), s, here, claim)
			if err != nil {
				return err
			}
			return drawTree(s, root, out)
		},
	}
	out.AddFlags(cmd)
	session.CompleteArgs(s, cmd, session.ClaimNames)
	return cmd
}

// node is an object of the tree, and the fields of -o.
type node struct {
	Name  string `json:"name"`
	State string `json:"state,omitempty"`
	// Block is the CIDR of the object.
	Block string `json:"block,omitempty"`
	// Says is why its state is not the one hoped for, or what else there is to know.
	Says  string `json:"says,omitempty"`
	Below []node `json:"below,omitempty"`
}

func drawTree(s *session.Session, root node, out *output.Report) error {
	t := output.NewTable("NAME", "STATE", "BLOCK", "SAYS")
	output.Walk(root, func(n node) []node { return n.Below }, func(lead string, n node) {
		t.Rows = append(t.Rows, output.Row(nil, lead+n.Name, n.State, n.Block, n.Says))
	})
	return out.Show(s.Out, root, t)
}

// unseen is said of an object that the caller cannot read.
const unseen = "not shown to you"

// treeOf reads the objects that a claim depends on, as far as the caller may.
func treeOf(ctx context.Context, s *session.Session, c client.Client, claim *ipamv1alpha1.IPClaim) (node, error) {
	root := node{Name: "claim " + facts.Name(claim), State: string(claim.Status.Phase), Block: claim.Status.AllocatedCIDR, Says: refusal(claim)}
	if name := facts.Class(claim); name != "" {
		class, err := classOf(ctx, c, name)
		if err != nil {
			return root, err
		}
		root.Below = append(root.Below, class)
	}
	if ref := facts.Pool(claim); ref.Name != "" {
		pool, err := poolOf(ctx, c, ref, map[string]bool{})
		if err != nil {
			return root, err
		}
		root.Below = append(root.Below, pool)
	}
	record, err := recordOf(ctx, c, client.ObjectKeyFromObject(claim))
	if exit.IgnoreUnseen(err) != nil {
		return root, err
	}
	switch bound := claim.Status.BoundAllocationRef; {
	case err == nil && record.Spec.ClaimRef == nil:
		root.Below = append(root.Below, node{Name: "allocation " + record.Name, State: space.WordRetained, Block: record.Status.AllocatedCIDR, Says: keptUntil(record, s.Now())})
	case err == nil:
		root.Below = append(root.Below, node{Name: "allocation " + record.Name, State: space.WordAllocated, Block: record.Status.AllocatedCIDR})
	case bound != nil:
		root.Below = append(root.Below, node{Name: "allocation " + bound.Name, Says: notRead(err)})
	}
	if owner := space.OwnerOf(claim.Spec.OwnerRef); owner != "" {
		below := node{Name: "owner " + owner}
		if gone := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionConsumerGone); gone != nil && gone.Status == metav1.ConditionTrue {
			below.State, below.Says = "gone", gone.Message
		}
		root.Below = append(root.Below, below)
	}
	return root, nil
}

// refusal says why an object has no block, or a class cannot be used; empty if all is well.
func refusal(object client.Object) string {
	if now := facts.AnswerOf(object); !now.Given() {
		return now.Reason()
	}
	return ""
}

// notRead says why an object cannot be read.
func notRead(err error) string {
	if apierrors.IsForbidden(err) {
		return unseen
	}
	return "there is none"
}

// classOf reads a class, if the caller is shown it.
func classOf(ctx context.Context, c client.Client, name string) (node, error) {
	found := node{Name: "class " + name, Says: unseen}
	class, err := reach.Class(ctx, c, name)
	if err == nil {
		found.State = string(class.Status.Phase)
		found.Says = cmp.Or(refusal(class), string(class.Spec.IPFamily)+", "+facts.ClassLengths(class))
	}
	return found, exit.IgnoreUnseen(err)
}

// poolOf reads a pool of this workspace, and those that it is carved from. Pools may name one another in a circle,
// which ends at one that was seen.
func poolOf(ctx context.Context, c client.Client, ref ipamv1alpha1.PoolRef, seen map[string]bool) (node, error) {
	found := node{Name: "pool " + space.In(ref.Name, facts.Workspace(ref)), Says: unseen}
	if ref.ProjectRef != nil {
		return found, nil
	}
	pool := &ipamv1alpha1.IPPool{}
	if err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, pool); err != nil {
		found.Says = notRead(err)
		return found, exit.IgnoreUnseen(err)
	}
	found.State, found.Block, found.Says = string(pool.Status.Phase), facts.CIDR(pool), refusal(pool)
	if used := facts.Utilisation(pool); found.Says == "" && used != "" {
		found.Says = used + " used"
	}
	if pool.Spec.ParentPoolRef == nil || seen[ref.Name] {
		return found, nil
	}
	seen[ref.Name] = true
	parent, err := poolOf(ctx, c, *pool.Spec.ParentPoolRef, seen)
	found.Below = []node{parent}
	return found, err
}
