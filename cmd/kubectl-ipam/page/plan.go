package page

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// planView is the page of a question to the planner, with the answer.
type planView struct {
	// Class is asked for, or the pool From of Workspace. If both are empty, the default class is.
	Class, From, Workspace, Length string
	Classes                        []ipamv1alpha1.IPClass
	// Lengths are the lengths that the class gives; empty if it gives any.
	Lengths []int32
	// Roles are the roles that the scope of the claim must have, each with the object that the user gave.
	Roles []role
	// Asked is set if the user has asked a question.
	Asked bool
	// Block is the block that the claim would get; the zero Prefix if it would get none.
	Block netip.Prefix
	Size  string
	// Pool names the pool of the block. PoolLink leads to the pool if the caller may see it.
	Pool, PoolLink string
	Map            *draw.Figure
	Legend         []legendEntry
	// Left has the figures of the pool after the claim; nil if these are not known.
	Left *left
	// Reason says why there is no block, and Remedy what to do.
	Reason, Remedy string
}

// role is a role of a scope, with the name of its object; the name may be empty.
type role struct{ Name, Object string }

// Field returns the name of the field in the form.
func (r role) Field() string { return "scope." + r.Name }

// left has the free space of a pool before and after a claim.
type left struct {
	Before, After               meter
	Free, Largest, LargestAfter string
}

func (s *server) plan(r *http.Request, snapshot *Snapshot) (view, error) {
	query := r.URL.Query()
	data := planView{
		Classes: snapshot.Classes, Class: query.Get("class"), From: query.Get("pool"), Workspace: query.Get("workspace"),
		Length: strings.TrimPrefix(strings.TrimSpace(query.Get("length")), "/"),
		Asked:  query.Has("class") || query.Has("pool") || query.Has("length"),
	}
	for _, c := range snapshot.Classes {
		if c.Name == data.Class || data.Class == "" && data.From == "" && facts.IsDefault(&c) {
			for _, name := range c.Status.RequiredScopeRoles {
				data.Roles = append(data.Roles, role{name, strings.TrimSpace(query.Get("scope." + name))})
			}
		}
		if allowed := c.Spec.AllowedPrefixLengths; c.Name == data.Class && allowed != nil {
			for length := allowed.Min; length <= min(allowed.Max, 128); length++ {
				data.Lengths = append(data.Lengths, length)
			}
		}
	}
	page := view{Template: "plan.html", Title: "Planner", Still: true}
	if data.Asked {
		if err := s.answer(r, snapshot, &data); err != nil {
			return view{}, err
		}
	}
	page.Data = data
	return page, nil
}

// answer asks the server for the answer to a claim, and stores no claim.
func (s *server) answer(r *http.Request, snapshot *Snapshot, data *planView) error {
	claim := &ipamv1alpha1.IPClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "plan-", Namespace: snapshot.Namespace}}
	claim.Spec.ClassName = data.Class
	claim.Spec.PoolRef = space.Ref(data.From, data.Workspace)
	if data.From != "" && data.Class != "" {
		data.Reason = "Give a class or a pool, not both."
		return nil
	}
	for _, r := range data.Roles {
		if r.Object == "" {
			data.Reason = fmt.Sprintf("Say for which %s: the class gives each one address space of its own.", r.Name)
			return nil
		}
		if wrong := field.Scope(&claim.Spec.Scope).Set(r.Name + "=" + r.Object); wrong != nil {
			data.Reason = fmt.Sprint(wrong)
			return nil
		}
	}
	if data.Length != "" {
		var err error
		if claim.Spec.PrefixLength, err = field.ParseLength(data.Length); err != nil {
			data.Reason = fmt.Sprintf("%q is %v", data.Length, err)
			return nil
		}
	}
	if err := s.Source.Preview(r.Context(), claim); err != nil {
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) {
			return err
		}
		data.Reason = err.Error()
		return nil
	}
	said := facts.AnswerOf(claim)
	block, err := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	switch {
	case said.Allocated == nil:
		data.Reason = "The system does not answer now. A claim would be answered later."
	case err != nil:
		data.Reason, data.Remedy = said.Reason(), said.Remedy
	default:
		data.show(snapshot, claim, block)
	}
	return nil
}

// show shows the block on the map of its pool, if the caller may see the pool.
func (v *planView) show(snapshot *Snapshot, claim *ipamv1alpha1.IPClaim, block netip.Prefix) {
	v.Block, v.Size = block, sized(block)
	if claim.Status.PoolRef == nil {
		return
	}
	workspace := ""
	if in := claim.Status.PoolRef.ProjectRef; in != nil {
		workspace = snapshot.own(in.Name)
	}
	v.Pool = space.In(claim.Status.PoolRef.Name, workspace)
	p, ok := snapshot.pool(workspace, claim.Status.PoolRef.Name)
	if !ok || !p.Shown() || !p.Window().Contains(block.Addr()) {
		return
	}
	v.PoolLink = p.At(p.Window(), block)
	blocks := append(p.blocks(), draw.Block{Prefix: block, Kind: draw.Planned, Label: "your claim"})
	draw.Sort(blocks)
	const around = 8 // bits: 1/256 of the map can still be seen
	window := p.Window()
	if block.Bits()-around > window.Bits() {
		window = widened(block, around)
	}
	at := draw.Map{Window: window, Blocks: blocks, Rest: p.rest()}
	figure := at.Figure("Where the block "+block.String()+" would lie",
		"The map of "+window.String()+" in pool "+v.Pool, linker(p, window, block))
	v.Map, v.Legend, v.Left = &figure, legendOf(figure), leftOf(p, block)
}

// leftOf returns the free space of a pool once a block is taken.
func leftOf(p *Pool, block netip.Prefix) *left {
	taken, ok := new(big.Int).SetString(p.Object.Status.Capacity.Allocated, 10)
	total, known := new(big.Int).SetString(p.Object.Status.Capacity.Total, 10)
	if !ok || !known || p.rest() != draw.Free {
		return nil
	}
	before := p.Space()
	after := before
	after.Taken = append(slices.Clip(after.Taken), block)
	size := new(big.Int).Sub(after.Known(), before.Known())
	then := new(big.Int).Add(taken, size)
	return &left{
		Before: p.Meter(), After: shareOf(then, total),
		Free:    draw.Count(new(big.Int).Sub(total, then)),
		Largest: largest(before), LargestAfter: largest(after),
	}
}

// largest returns the largest free block, as its length.
func largest(s space.Space) string {
	free := s.Free()
	if len(free) == 0 {
		return "none"
	}
	return fmt.Sprintf("/%d", slices.MinFunc(free, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() }).Bits())
}
