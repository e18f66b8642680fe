package networks

import (
	"context"
	"fmt"
)

// Release releases the claims of an interface, and deletes each record right after its claim. It skips claims that
// are gone.
func (c *Client) Release(ctx context.Context, claims ...Claim) error {
	for _, claim := range claims {
		found, err := c.claims.find(ctx, claim.Name)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		if err := c.claims.remove(ctx, claim.Name); err != nil {
			return err
		}
		record := claimOf(found).Record
		if record == "" {
			return fmt.Errorf("claim %s names no IPAllocation", claim.Name)
		}
		if err := c.records.remove(ctx, record); err != nil {
			return err
		}
	}
	return nil
}

// ReleaseRange releases the claim of a range, and checks that claim and pool are gone. A *Refusal with Code 409 means
// that the range is not empty.
func (c *Client) ReleaseRange(ctx context.Context, claim Claim) error {
	if err := c.claims.remove(ctx, claim.Name); err != nil {
		return err
	}
	return c.Absent(ctx, claim)
}

// Absent returns an error if the claim of a range, or its pool, still exists.
func (c *Client) Absent(ctx context.Context, claim Claim) error {
	found, err := c.claims.find(ctx, claim.Name)
	if err == nil && found != nil {
		err = fmt.Errorf("claim %s is there after its release", claim.Name)
	}
	if err != nil {
		return err
	}
	found, err = c.pools.find(ctx, claim.Pool)
	if err == nil && found != nil {
		err = fmt.Errorf("pool %s of claim %s is there after its release", claim.Pool, claim.Name)
	}
	return err
}
