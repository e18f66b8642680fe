package main

import (
	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/controllers/consumer"
)

// addConsumerFlags adds the flags that say when the consumer of a claim is gone, and
// what becomes of the claim.
func (o *options) addConsumerFlags(f *pflag.FlagSet) {
	c := &o.consumer
	f.BoolVar(&c.Terminating, "cleanup-terminating", c.Terminating, "count the consumer of a claim, the object of its ownerRef, as gone when it is being deleted")
	f.BoolVar(&c.Disrupted, "cleanup-disrupted", c.Disrupted, "count it as gone when its conditions say that it is lost or disrupted")
	f.StringToStringVar(&c.Reported, "verify-reported", c.Reported, "count it as gone when it reports addresses, and none of the claim's: where to find them, by kind, like Pod=status.podIPs.ip,Machine.example.com=status.address")
	f.BoolVar(&c.DeleteAbandoned, "delete-abandoned-claims", c.DeleteAbandoned, "delete claims whose consumer is gone, which otherwise only say so. Looked for at --sweep-interval from --orphan-min-age on, within --sweep-max-frees and --sweep-max-share of a workspace")
}

// consumers is how consumers are looked after: as often and as carefully as orphans.
func (o *options) consumers() consumer.Options {
	c, s := o.consumer, o.sweeping()
	c.Interval, c.MinAge, c.MaxDeletes, c.MaxShare = s.Interval, s.MinAge, s.MaxFrees, s.MaxShare
	return c
}
