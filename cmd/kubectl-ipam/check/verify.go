package check

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/plural"
	"github.com/kcp-ipam/ipam/workspaces"
)

// NewVerify makes kubectl ipam verify.
func NewVerify(s *session.Session) *cobra.Command {
	out := &output.Report{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check claims against their records",
		Long: `Check that every bound claim has its IPAllocation, that every IPAllocation has its claim
or is retained, that both name the same block, and that no two blocks of a pool overlap.
The command checks what you may see: this workspace, and for admins of the platform the
workspaces of all tenants. ipam-controller verify compares them with the ledger.

The exit code is 1 when something is wrong.`,
		Example: `  # print the findings for a program
  kubectl ipam verify -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return verify(cmd.Context(), s, out) },
	}
	out.AddFlags(cmd)
	return cmd
}

// audit is what verify has found, and the fields of -o.
type audit struct {
	Claims      int       `json:"claims"`
	Allocations int       `json:"allocations"`
	Findings    []finding `json:"findings"`
}

// looks is how often verify looks at what seems wrong: what changes meanwhile seems so.
const looks = 3

func verify(ctx context.Context, s *session.Session, out *output.Report) error {
	r, err := reach.Of(ctx, s)
	if err != nil {
		return err
	}
	found, err := auditOf(ctx, r)
	if err != nil {
		return err
	}
	found.Findings = append(found.Findings, checkExport(ctx, r)...)
	t := output.NewTable("WORKSPACE", "NAMESPACE", "NAME", "WRONG")
	for _, f := range found.Findings {
		t.Rows = append(t.Rows, output.Row(nil, f.Workspace, f.Namespace, f.Name, f.Wrong))
	}
	if out.Given() || len(t.Rows) > 0 {
		if err := out.Show(s.Out, found, t); err != nil {
			return err
		}
	}
	if len(found.Findings) == 0 {
		s.Say("%s and %s agree", plural.Of(found.Claims, "claim", "claims"), plural.Of(found.Allocations, "allocation", "allocations"))
		return nil
	}
	return exit.Fail(exit.Error, "ipam-controller repairs most of this; if it stays, see its log", "%s wrong", plural.Of(len(found.Findings), "thing is", "things are"))
}

// auditOf checks the books, and keeps what is wrong each time.
func auditOf(ctx context.Context, r *reach.View) (audit, error) {
	found := audit{Findings: []finding{}}
	for look := range looks {
		records, err := r.Allocations(ctx)
		if err != nil {
			return found, err
		}
		claims, err := r.Claims(ctx)
		if err != nil {
			return found, err
		}
		books := books{r, claims, records}
		now := books.check()
		found.Claims, found.Allocations = len(books.claims), len(books.records)
		if look == 0 {
			found.Findings = append(found.Findings, now...)
		}
		found.Findings = slices.DeleteFunc(found.Findings, func(f finding) bool { return !slices.Contains(now, f) })
		if len(found.Findings) == 0 {
			break
		}
	}
	return found, nil
}

// checkExport says that the API is served without its export: then nobody keeps the books.
func checkExport(ctx context.Context, r *reach.View) []finding {
	here := &installation{}
	here.readBindings(ctx, r)
	here.readExport(ctx, r)
	if gone := here.exportGone(); gone != "" {
		return []finding{{Workspace: r.Path, Name: "APIExport/" + workspaces.ExportName, Wrong: gone}}
	}
	return nil
}

// books are the claims and their records, as far as they are seen.
type books struct {
	*reach.View
	claims  []ipamv1alpha1.IPClaim
	records []ipamv1alpha1.IPAllocation
}

// finding is something that is wrong with an object.
type finding struct {
	Workspace string `json:"workspace"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Wrong     string `json:"wrong"`
}

func (b books) about(object client.Object, format string, args ...any) finding {
	return finding{cmp.Or(b.Workspace(object), b.Path), object.GetNamespace(), facts.Kind(object) + "/" + object.GetName(), fmt.Sprintf(format, args...)}
}

// check lists what is wrong.
func (b books) check() []finding {
	records := map[types.UID]*ipamv1alpha1.IPAllocation{} // by the claim that holds them
	for i := range b.records {
		if ref := b.records[i].Spec.ClaimRef; ref != nil {
			records[ref.UID] = &b.records[i]
		}
	}
	var wrong []finding
	living := map[types.UID]bool{}
	for i := range b.claims {
		claim := &b.claims[i]
		living[claim.UID] = true
		if f, ok := b.checkClaim(claim, records[claim.UID]); !ok {
			wrong = append(wrong, f)
		}
	}
	for i := range b.records {
		if ref := b.records[i].Spec.ClaimRef; ref != nil && !living[ref.UID] {
			wrong = append(wrong, b.about(&b.records[i], "its claim %s is gone", ref.Name))
		}
	}
	return append(wrong, b.checkOverlaps()...)
}

// checkClaim compares a claim with its record.
func (b books) checkClaim(claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) (finding, bool) {
	switch {
	case claim.Status.AllocatedCIDR == "" || !claim.DeletionTimestamp.IsZero():
		return finding{}, true
	case record == nil:
		return b.about(claim, "holds %s and has no record", claim.Status.AllocatedCIDR), false
	case record.Status.AllocatedCIDR != claim.Status.AllocatedCIDR:
		return b.about(claim, "holds %s, and its record says %s", claim.Status.AllocatedCIDR, record.Status.AllocatedCIDR), false
	default:
		return finding{}, true
	}
}

// checkOverlaps finds blocks of one pool that overlap. In the order of their addresses,
// a block overlaps an earlier one only if it overlaps the one that reaches furthest.
func (b books) checkOverlaps() []finding {
	type block struct {
		netip.Prefix
		record *ipamv1alpha1.IPAllocation
	}
	pools := map[[2]string][]block{}
	for i := range b.records {
		record := &b.records[i]
		prefix, err := netip.ParsePrefix(record.Status.AllocatedCIDR)
		if err != nil {
			continue // not written yet
		}
		pool := [2]string{b.Owner(record, record.Spec.PoolRef), record.Spec.PoolRef.Name}
		pools[pool] = append(pools[pool], block{prefix, record})
	}
	var wrong []finding
	for _, held := range pools {
		slices.SortFunc(held, func(a, b block) int { return a.Compare(b.Prefix) })
		furthest := 0
		for i := 1; i < len(held); i++ {
			if held[i].Overlaps(held[furthest].Prefix) {
				wrong = append(wrong, b.about(held[i].record, "%s overlaps %s of %s", held[i].Prefix,
					held[furthest].Prefix, facts.Name(held[furthest].record)))
				continue
			}
			furthest = i
		}
	}
	slices.SortFunc(wrong, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return wrong
}
