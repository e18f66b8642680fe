package networks

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Release releases the claims of an interface, each with its record at once. Those that are gone already are passed over.
func (c *Client) Release(ctx context.Context, claims ...Claim) error {
	for _, claim := range claims {
		found, err := c.claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			if err := gone(err, "read", "ipclaims", claim.Name); err != nil {
				return err
			}
			continue
		}
		record := read(found).Record
		if err := gone(c.claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}), "delete", "ipclaims", claim.Name); err != nil {
			return err
		}
		if record == "" {
			return fmt.Errorf("claim %s names no IPAllocation", claim.Name)
		}
		if err := c.deleteRecord(ctx, record); err != nil {
			return err
		}
	}
	return nil
}

// undecided is for how long the DELETE of a record is sent again while nobody can tell whether its claim is gone.
const undecided = time.Minute

// deleteRecord deletes the record of a claim that is gone.
func (c *Client) deleteRecord(ctx context.Context, record string) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, time.Second, undecided, true, func(ctx context.Context) (bool, error) {
		err = c.records.Delete(ctx, record, metav1.DeleteOptions{})
		return !apierrors.IsServiceUnavailable(err), nil
	})
	return gone(err, "delete", "ipallocations", record)
}

// ReleaseRange releases the claim of a range, and sees that claim and pool are gone. A *Refusal with Code 409: something is inside.
func (c *Client) ReleaseRange(ctx context.Context, claim Claim) error {
	if err := gone(c.claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}), "delete", "ipclaims", claim.Name); err != nil {
		return err
	}
	return c.Absent(ctx, claim)
}

// Absent returns an error if the claim of a range, or its pool, is there.
func (c *Client) Absent(ctx context.Context, claim Claim) error {
	_, err := c.claims.Get(ctx, claim.Name, metav1.GetOptions{})
	if err == nil {
		return fmt.Errorf("claim %s is there after its release", claim.Name)
	}
	if err := gone(err, "read", "ipclaims", claim.Name); err != nil {
		return err
	}
	_, err = c.pools.Get(ctx, claim.Pool, metav1.GetOptions{})
	if err == nil {
		return fmt.Errorf("pool %s of claim %s is there after its release", claim.Pool, claim.Name)
	}
	return gone(err, "read", "ippools", claim.Pool)
}
