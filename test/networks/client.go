package networks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Options are the classes and families that a client claims.
type Options struct {
	// Namespace of the claims. Default: default.
	Namespace string
	// Network and Location are the classes of the ranges. Required for ranges.
	Network, Location string
	// Families are those of an interface, IPv4 or IPv6: one claim of the default class of each.
	Families []string
	// Classes are further classes of an interface: one claim of each.
	Classes []string
	// Workers is the number of requests that may be in flight at once, as for a controller with so many workers. Further
	// requests wait. Default: 10.
	Workers int
}

// Client is a network controller in one workspace. It is safe for concurrent use.
type Client struct {
	options                         Options
	classes, pools, claims, records objects
}

// Claim is all that the client knows of a claim. The zero value is no claim.
type Claim struct {
	// Name of the claim, and CIDR that it shows.
	Name, CIDR string
	// Pool is the name of the pool that contains the CIDR. Record is the name of the IPAllocation; a range has none.
	Pool, Record string
	// Target is empty, Block or ScopeRange.
	Target string
}

// ErrUnanswered: CREATE has answered with a claim that shows no CIDR.
var ErrUnanswered = errors.New("the claim was created without a CIDR")

const (
	group      = "ipam.miloapis.com"
	scopeRange = "ScopeRange"
)

// New returns a client of the workspace that cfg reaches.
func New(cfg *rest.Config, options Options) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	api, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	options.Namespace = cmp.Or(options.Namespace, metav1.NamespaceDefault)
	workers := make(chan struct{}, cmp.Or(options.Workers, 10))
	of := func(resource, namespace string) objects {
		all := api.Resource(schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: resource})
		if namespace == "" {
			return objects{all, resource, workers}
		}
		return objects{all.Namespace(namespace), resource, workers}
	}
	return &Client{
		options: options, classes: of("ipclasses", ""), pools: of("ippools", ""),
		claims: of("ipclaims", options.Namespace), records: of("ipallocations", options.Namespace),
	}, nil
}

// Ready returns an error unless all classes that the options name are ready.
func (c *Client) Ready(ctx context.Context) error {
	for _, name := range append([]string{c.options.Network, c.options.Location}, c.options.Classes...) {
		if name == "" {
			continue
		}
		class, err := c.classes.read(ctx, name)
		if err != nil {
			return err
		}
		if phase := text(class, "status", "phase"); phase != "Ready" {
			return fmt.Errorf("class %s is %q, not Ready", name, phase)
		}
	}
	return nil
}

// Network creates the range of a network, or finds it.
func (c *Client) Network(ctx context.Context, network string) (Claim, error) {
	return c.hold(ctx, network, c.options.Network, scope("network", network))
}

// Location creates the range of a location of a network, or finds it.
func (c *Client) Location(ctx context.Context, network, location string) (Claim, error) {
	return c.hold(ctx, network+"."+location, c.options.Location, scope("network", network, "location", location))
}

// hold creates or finds a claim for a range, and checks that its pool is in the same workspace.
func (c *Client) hold(ctx context.Context, name, class string, scope map[string]any) (Claim, error) {
	claim, _, err := c.ensure(ctx, name, map[string]any{"className": class, "target": scopeRange, "scope": scope})
	if err != nil {
		return claim, err
	}
	if claim.Target != scopeRange {
		return claim, fmt.Errorf("claim %s has the target %q, want %s", name, claim.Target, scopeRange)
	}
	_, err = c.pools.read(ctx, claim.Pool)
	return claim, err
}

// Interface creates the claims of an interface, or finds them. If one is refused, it deletes those that it has
// created.
func (c *Client) Interface(ctx context.Context, network, location, name string) ([]Claim, error) {
	var claims, made []Claim
	for _, each := range c.wanted() {
		spec := map[string]any{each.field: each.value, "scope": scope("network", network, "location", location)}
		claim, created, err := c.ensure(ctx, network+"."+location+"."+name+"."+each.suffix, spec)
		if err != nil {
			for _, undone := range made {
				err = errors.Join(err, c.claims.remove(ctx, undone.Name))
			}
			return nil, err
		}
		claims = append(claims, claim)
		if created {
			made = append(made, claim)
		}
	}
	return claims, nil
}

// wish is a claim of an interface: the end of its name, and a field of its spec.
type wish struct{ suffix, field, value string }

func (c *Client) wanted() []wish {
	all := make([]wish, 0, len(c.options.Families)+len(c.options.Classes))
	for _, family := range c.options.Families {
		all = append(all, wish{strings.ToLower(family), "ipFamily", family})
	}
	for _, class := range c.options.Classes {
		all = append(all, wish{class, "className", class})
	}
	return all
}

// ensure finds a claim or creates it. created reports whether it created the claim.
func (c *Client) ensure(ctx context.Context, name string, spec map[string]any) (claim Claim, created bool, err error) {
	found, err := c.claims.find(ctx, name)
	if err != nil {
		return claim, false, err
	}
	if created = found == nil; created {
		found, err = c.claims.create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1alpha1", "kind": "IPClaim",
			"metadata": map[string]any{"name": name, "namespace": c.options.Namespace, "creationTimestamp": nil},
			"spec":     spec, "status": map[string]any{},
		}})
	}
	if err != nil {
		return claim, false, err
	}
	if claim = claimOf(found); claim.CIDR != "" {
		return claim, created, nil
	}
	err = fmt.Errorf("claim %s: %w", name, ErrUnanswered)
	if created {
		err = errors.Join(err, c.claims.remove(ctx, name))
	}
	return claim, false, err
}

// Check returns an error unless the claim still shows its CIDR, in the same text.
func (c *Client) Check(ctx context.Context, claim Claim) error {
	found, err := c.claims.read(ctx, claim.Name)
	if err != nil {
		return err
	}
	if now := claimOf(found); now.CIDR != claim.CIDR {
		return fmt.Errorf("claim %s shows %q, want %q", claim.Name, now.CIDR, claim.CIDR)
	}
	return nil
}
