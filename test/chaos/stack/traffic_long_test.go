//go:build long

package stack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	// names is how many names a tenant has for its claims, which come and go.
	names = 5
	// nets is how many networks a tenant has. Each has a name for its range, and a name for an interface.
	nets = 2
	// patience is how long one action may take. kcp takes 25 s to start.
	patience = 3 * time.Minute
)

// customer is a tenant at work.
type customer struct {
	tenant   *framework.Tenant
	platform string
	random   *rand.Rand
	leaves   bool // it unbinds now and then, and binds again
	has      map[string]bool
}

// run takes one action after the other while ctx lasts. The last action may go on until whole ends.
func (c *customer) run(ctx, whole context.Context) error {
	for ctx.Err() == nil {
		if err := c.act(whole); err != nil {
			return fmt.Errorf("tenant %s: %w", c.tenant.Path, err)
		}
		retry.Pause(ctx, between(c.random, 20, 200))
	}
	return nil
}

// act takes the next action: it makes the claim of some name, or deletes it, or deletes it and makes it again at
// once, or it leaves and comes back.
func (c *customer) act(ctx context.Context) error {
	if c.leaves && c.random.IntN(40) == 0 {
		return c.rebind(ctx)
	}
	name, options := c.draw()
	again := c.random.IntN(3) == 0
	if c.has[name] {
		if err := c.remove(ctx, name); err != nil || !again {
			return err
		}
	}
	return c.add(ctx, name, options...)
}

// draw returns the name and options of a claim: c… is a flat claim, e… an interface of a network, and r… the range of
// a network.
func (c *customer) draw() (name string, options []gen.ClaimOption) {
	n := c.random.IntN(names + 2*nets)
	network := strconv.Itoa(n % nets)
	switch {
	case n < names:
		return fmt.Sprint("c", n), []gen.ClaimOption{gen.OfClass("chaos"), gen.Length(int32(29 + c.random.IntN(3)))}
	case n < names+nets:
		return "e" + network, []gen.ClaimOption{gen.OfClass("interface"), gen.Within("network", network)}
	default:
		return "r" + network, []gen.ClaimOption{gen.OfClass("network"), gen.Within("network", network), gen.ForRange()}
	}
}

func (c *customer) add(ctx context.Context, name string, options ...gen.ClaimOption) error {
	c.has[name] = true
	return retry.Do(ctx, patience, "create "+name, func(ctx context.Context) error {
		claim := gen.Claim(name, options...)
		return client.IgnoreAlreadyExists(c.tenant.Create(ctx, claim)) // the answer to the first try was lost
	})
}

func (c *customer) remove(ctx context.Context, name string) error {
	delete(c.has, name)
	return retry.Do(ctx, patience, "delete "+name, func(ctx context.Context) error {
		err := c.tenant.Delete(ctx, gen.Claim(name))
		if absent.Object(err, "ipclaims", name) {
			return nil // the answer to the try before was lost
		}
		if apierrors.IsConflict(err) && name[0] == 'r' && c.has["e"+name[1:]] {
			c.has[name] = true // the range stays
			return nil
		}
		return err
	})
}

// rebind unbinds the API, which deletes all claims, and binds it again.
func (c *customer) rebind(ctx context.Context) error {
	clear(c.has)
	err := retry.Do(ctx, patience, "unbind", func(ctx context.Context) error {
		admin, err := framework.ReadAdminConfig()
		if err != nil {
			return err
		}
		return framework.Unbind(ctx, admin, c.tenant.Path)
	})
	if err != nil {
		return err
	}
	return retry.Do(ctx, patience, "bind", func(ctx context.Context) error {
		admin, err := framework.ReadAdminConfig()
		if err != nil {
			return err
		}
		_, err = workspaces.EnsureTenant(ctx, admin, workspaces.TenantOptions{Workspace: c.tenant.Path, Platform: c.platform})
		return err
	})
}
