package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// statusTimeout bounds how long a member of etcd may take to return its status. A request for the metrics waits for all
// members.
const statusTimeout = 2 * time.Second

// embedded stands for the endpoint of an etcd in this process.
const embedded = "embedded"

var (
	memberUp = prometheus.NewDesc("ipam_etcd_up",
		"1 if the member of etcd tells its status, 0 if it does not.", []string{"endpoint"}, nil)
	memberErrors = prometheus.NewDesc("ipam_etcd_errors",
		"Errors in the status of the member, such as no leader, no space or corrupt data.", []string{"endpoint"}, nil)
	memberSize = prometheus.NewDesc("ipam_etcd_db_size_bytes",
		"Size of the member's database file.", []string{"endpoint"}, nil)
	memberInUse = prometheus.NewDesc("ipam_etcd_db_in_use_bytes",
		"Part of the member's database file that is in use.", []string{"endpoint"}, nil)
	memberQuota = prometheus.NewDesc("ipam_etcd_db_quota_bytes",
		"Size that the member's database file may have before writes fail; absent if it does not say.",
		[]string{"endpoint"}, nil)
)

// Members asks the members of etcd for their status whenever the metrics are collected. It is a prometheus.Collector,
// and safe for concurrent use. Its one label has the endpoints that the client was given.
type Members struct{ Client *clientv3.Client }

// Describe implements prometheus.Collector.
func (m Members) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{memberUp, memberErrors, memberSize, memberInUse, memberQuota} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m Members) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(m.Client.Ctx(), statusTimeout)
	defer cancel()
	// Two endpoints of one name would fail all metrics.
	endpoints := slices.Compact(slices.Sorted(slices.Values(m.Client.Endpoints())))
	if len(endpoints) == 0 {
		m.collect(ctx, "", embedded, ch)
		return
	}
	var all sync.WaitGroup
	for _, endpoint := range endpoints {
		all.Go(func() { m.collect(ctx, endpoint, endpoint, ch) })
	}
	all.Wait()
}

// collect asks one member.
func (m Members) collect(ctx context.Context, endpoint, label string, ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	status, err := m.Client.Status(ctx, endpoint)
	if err != nil {
		gauge(memberUp, 0)
		return
	}
	gauge(memberUp, 1)
	gauge(memberErrors, float64(len(status.Errors)))
	gauge(memberSize, float64(status.DbSize))
	gauge(memberInUse, float64(status.DbSizeInUse))
	if status.DbSizeQuota > 0 {
		gauge(memberQuota, float64(status.DbSizeQuota))
	}
}
