package embedetcd

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// The goroutines of an etcd that has failed cannot be stopped. After Close they log nothing more.
func TestClose_MutesAFailedServer(t *testing.T) {
	var log bytes.Buffer
	s := must.Get(Start(t.Context(), Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	go s.faults.zap().Fatal("the disk is gone")
	<-s.Failed()
	must.Do(t, s.Close())
	before := log.String()
	s.faults.zap().Error("the directory is gone, too")
	if after := log.String(); after != before {
		t.Errorf("after Close it has logged %q; want nothing more", after[len(before):])
	}
}
