package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

const (
	// tendEvery is how often the store is looked after.
	tendEvery = 10 * time.Second
	// keepRounds is for how many rounds history is kept at least: a watch or a list that
	// is one minute behind can go on, however little room there is.
	keepRounds = 6
	// compactAfter is how long history is kept at most, as far as there is any.
	compactAfter = 10 * time.Minute
	// compactFrom is how much a small file may grow before history is dropped. A large one may grow by a sixteenth, and
	// none by more than a quarter of the room that is left.
	compactFrom = 4 << 20
	// defragFrom is the size below which a file is never defragmented.
	defragFrom = 128 << 20
	// nearlyFull is the share of the size that the file may have from which on there is a warning.
	nearlyFull = 0.8
)

// maintain looks after the store until ctx ends.
func (s *Server) maintain(ctx context.Context) {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	var history []int64
	for {
		select {
		case <-ticker.C:
		case <-s.faults.first:
			return
		case <-ctx.Done():
			return
		}
		revision, err := s.tend(ctx, history)
		if err != nil && ctx.Err() == nil {
			s.options.Logger.Warn("cannot look after the embedded etcd", "error", err)
			continue
		}
		history = remember(history, revision)
	}
}

// remember adds a revision to those of the rounds before.
func remember(history []int64, revision int64) []int64 {
	history = append(history, revision)
	return history[max(0, len(history)-keepRounds):]
}

// compaction is how far history was dropped, and is to be dropped. For that etcd looks at every key: with a million of
// them, every ten seconds, it would be the most that an idle controller does.
type compaction struct {
	revision int64 // up to which it was dropped
	due      int64 // up to which it is to be dropped, as soon as that is a minute old
	used     int64 // of the file, afterwards
	at       time.Time
}

// plan notes that the history up to now is to be dropped if it is much; and the history that may be dropped, if there
// was none for long.
func (c *compaction) plan(now, oldest, used, quota int64) {
	if used-c.used > min(c.used/16+compactFrom, (quota-c.used)/4) {
		c.due = now
	}
	if time.Since(c.at) >= compactAfter {
		c.due = max(c.due, oldest)
	}
}

// tend does one round: it drops history older than the oldest revision given, once
// there are enough of them and it is due, gives room in the file back, and ends a NOSPACE alarm that is
// over. It returns the current revision.
//
// A file that is full is defragmented only to gain an eighth of it: no read is answered
// meanwhile, and the room would be used up at once.
func (s *Server) tend(ctx context.Context, history []int64) (int64, error) {
	revision := s.etcd.Server.KV().Rev()
	alarmed, err := s.alarmed(ctx)
	if err != nil {
		return 0, err
	}
	file := s.etcd.Server.Backend()
	used := inUse(file)
	if len(history) == keepRounds {
		c := &s.compaction
		c.plan(revision, history[0], used, s.options.QuotaBytes)
		if history[0] > c.revision && (alarmed || c.due > c.revision) {
			if err := s.compact(ctx, history[0]); err != nil {
				return 0, err
			}
			used = inUse(file)
			c.revision, c.used, c.at = history[0], used, time.Now()
		}
	}
	size := file.Size()
	full := alarmed || size >= s.options.QuotaBytes // the next write would raise the alarm
	if full && used < size-size/8 || size > defragFrom && used < size/3 {
		if err := file.Defrag(); err != nil {
			return 0, fmt.Errorf("defragment: %w", err)
		}
	}
	s.warn(file.Size())
	if alarmed && file.Size() < s.options.QuotaBytes {
		return revision, s.disarm(ctx)
	}
	return revision, nil
}

// warn logs when the file is nearly as large as it may be, once until it is smaller.
func (s *Server) warn(size int64) {
	near := float64(size) > nearlyFull*float64(s.options.QuotaBytes)
	if near && !s.nearlyFull {
		s.options.Logger.Warn("the file of the embedded etcd is nearly as large as it may be; "+
			"when it is, nothing is given out or released any more",
			"size", size, "quota", s.options.QuotaBytes)
	}
	s.nearlyFull = near
}

// inUse is how much of the file is used. etcd counts that when it commits a change of its
// own file, which may not happen while all writes are refused; so there is a change that
// changes nothing.
func inUse(file backend.Backend) int64 {
	tx := file.BatchTx()
	tx.LockOutsideApply()
	tx.UnsafeDelete(schema.Meta, []byte("no such key"))
	tx.Unlock()
	file.ForceCommit()
	return file.SizeInUse()
}

func (s *Server) compact(ctx context.Context, revision int64) error {
	_, err := s.client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

func (s *Server) alarmed(ctx context.Context) (bool, error) {
	resp, err := s.client.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("list alarms: %w", err)
	}
	for _, alarm := range resp.Alarms {
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			return true, nil
		}
	}
	return false, nil
}

func (s *Server) disarm(ctx context.Context) error {
	if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("disarm NOSPACE: %w", err)
	}
	s.options.Logger.Info("etcd has room again, and takes writes")
	return nil
}
