package pool

import (
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// A pool that was nearly full or exhausted stays so until clearly fewer of its addresses are allocated. So a pool at
// the border, where claims come and go, has one event.
const (
	nearlyFull    = 90 // a pool is nearly full from this percentage of its addresses on
	notNearlyFull = 85 // below this percentage it no longer is
	notExhausted  = 95 // below this percentage an exhausted pool no longer is exhausted
)

// fullnessSays are the messages of the condition RunningOut. They have no figures, so that the condition changes only
// with its reason.
var fullnessSays = map[ipamv1alpha1.Reason]string{
	ipamv1alpha1.ReasonNearlyFull: fmt.Sprintf("the pool has passed %d %% of its addresses; this ends below %d %%",
		nearlyFull, notNearlyFull),
	ipamv1alpha1.ReasonExhausted: fmt.Sprintf("the pool has allocated all its addresses; this ends below %d %%",
		notExhausted),
}

// fullness returns how full a pool is; empty: it has room. was is what fullness returned before.
func fullness(was ipamv1alpha1.Reason, c ledger.Capacity) ipamv1alpha1.Reason {
	atLeast := func(percent int64) bool {
		share, limit := new(big.Int).Mul(c.Allocated, big.NewInt(100)), new(big.Int).Mul(c.Total, big.NewInt(percent))
		return share.Cmp(limit) >= 0
	}
	switch {
	case c.Available.Sign() == 0, was == ipamv1alpha1.ReasonExhausted && atLeast(notExhausted):
		return ipamv1alpha1.ReasonExhausted
	case atLeast(nearlyFull), was != "" && atLeast(notNearlyFull):
		return ipamv1alpha1.ReasonNearlyFull
	}
	return ""
}

// reportFullness sets the condition RunningOut while a pool is nearly full or exhausted. A change has an event, which
// is emitted once the condition is stored: from the condition a later pass knows what was told.
func (p *pass) reportFullness(c ledger.Capacity) {
	was := ipamv1alpha1.Reason("")
	if before := meta.FindStatusCondition(p.pool.Status.Conditions, ipamv1alpha1.ConditionRunningOut); before != nil {
		was = ipamv1alpha1.Reason(before.Reason)
	}
	now := fullness(was, c)
	if now == "" {
		outcome.Report(&p.pool.Status.Conditions, p.pool.Generation, ipamv1alpha1.ConditionRunningOut, nil)
	} else {
		outcome.Report(&p.pool.Status.Conditions, p.pool.Generation, ipamv1alpha1.ConditionRunningOut,
			&outcome.Refusal{Reason: now, Message: fullnessSays[now]})
	}
	figures := fmt.Sprintf("%s of %s addresses are allocated", c.Allocated, c.Total)
	switch {
	case now == was:
	case now == ipamv1alpha1.ReasonExhausted, was == "":
		p.news = func() { p.reporter().tell(corev1.EventTypeWarning, now, figures) }
	default:
		p.news = func() { p.reporter().tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonRoomAgain, figures) }
	}
}
