package space

import (
	"math/big"
	"slices"
	"strings"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/forecast"
)

// Outlook says when a pool will be full. It has a forecast for each of forecast.Windows.
type Outlook []forecast.Forecast

// OutlookOf returns the outlook of a pool, from the samples in its annotation. Samples that cannot be read count as too
// little data.
func OutlookOf(pool *ipamv1alpha1.IPPool, now time.Time) Outlook {
	all := make(Outlook, len(forecast.Windows))
	if pool == nil || pool.Status.Capacity == nil {
		return all
	}
	samples, err := forecast.Parse(pool.Annotations[ipamv1alpha1.AnnotationUsage])
	used, okUsed := new(big.Int).SetString(pool.Status.Capacity.Allocated, 10)
	free, okFree := new(big.Int).SetString(pool.Status.Capacity.Available, 10)
	if err != nil || !okUsed || !okFree {
		return all
	}
	for i, w := range forecast.Windows {
		all[i] = samples.Full(now, used, free, w)
	}
	return all
}

// String returns the outlook in words, such as "full in 8 days (last day), not full at this rate (last week), too
// little data (last month)".
func (o Outlook) String() string {
	if !slices.ContainsFunc(o, func(f forecast.Forecast) bool { return f.State != forecast.TooLittle }) {
		return forecast.Forecast{}.String()
	}
	said := make([]string, len(o))
	for i, f := range o {
		said[i] = f.String() + " (last " + forecast.Windows[i].Name + ")"
	}
	return strings.Join(said, ", ")
}

// Soon returns the outlook in a few words, by the longest window that has enough data; empty if the pool does not fill.
func (o Outlook) Soon() string {
	for i, f := range slices.Backward(o) {
		switch f.State {
		case forecast.Fills:
			return f.String() + " at the rate of the last " + forecast.Windows[i].Name
		case forecast.Never:
			return ""
		case forecast.TooLittle:
		}
	}
	return ""
}
