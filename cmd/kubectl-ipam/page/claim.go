package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// claimView is the page of one claim.
type claimView struct {
	claimRow
	// Since is when the claim got its block; zero without a block.
	Since metav1.Time
	// Record is the name of the IPAllocation of the block.
	Record string
	Past   past
}

// past is the history of a claim or of an address.
type past struct {
	Holders []lookup.Holder
	// Unknown says why the history could not be read; empty if it was.
	Unknown string
}

// pastOf reads the history that a query selects.
func (s *server) pastOf(ctx context.Context, q lookup.Query) past {
	answer, err := s.Source.History(ctx, q)
	if err != nil {
		return past{Unknown: err.Error()}
	}
	return past{Holders: answer.Holders}
}

// Path returns the path of the claim's page.
func (w waiting) Path() string {
	path := "/claim/" + url.PathEscape(w.Namespace) + "/" + url.PathEscape(w.Name)
	if w.Workspace == "" {
		return path
	}
	return path + "?" + url.Values{"workspace": {w.Workspace}}.Encode()
}

func (s *server) claim(r *http.Request, snapshot *Snapshot) (view, error) {
	namespace, name, workspace := r.PathValue("namespace"), r.PathValue("name"), r.URL.Query().Get("workspace")
	for _, c := range snapshot.Claims {
		if c.Namespace != namespace || c.Name != name || c.Workspace != workspace {
			continue
		}
		data := claimView{
			claimRow: rowOf(snapshot, c),
			Past:     s.pastOf(r.Context(), lookup.Query{Claim: string(cmp.Or(c.Status.AllocationID, c.UID))}),
		}
		if c.Status.BoundAllocationRef != nil {
			data.Record = c.Status.BoundAllocationRef.Name
		}
		for _, said := range c.Status.Conditions {
			if said.Type == ipamv1alpha1.ConditionAllocated && said.Status == metav1.ConditionTrue {
				data.Since = said.LastTransitionTime
			}
		}
		return view{Template: "claim.html", Title: "Claim " + data.Holder(), Data: data, Still: true}, nil
	}
	return view{}, &problem{http.StatusNotFound, fmt.Sprintf("You see no claim %s.", legible.Text(namespace+"/"+name))}
}

// searchPast adds the history of a block to the results of a search.
func (v *searchView) searchPast(ctx context.Context, s *server, block netip.Prefix) {
	found := s.pastOf(ctx, lookup.Query{Prefix: block, Limit: perPage})
	v.Past = &found
}
