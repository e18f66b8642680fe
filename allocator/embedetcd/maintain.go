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
	// tendEvery is the time between two rounds of tend.
	tendEvery = 10 * time.Second
	// keepRounds is for how many rounds history is kept at least, however little room there is. So a watch or a list can
	// go on if it is up to a minute behind.
	keepRounds = 6
	// compactAfter is how long after a compaction a small history is dropped, too.
	compactAfter = 10 * time.Minute
	// compactFrom is how much a small file may grow before history is dropped. A large file may grow by a sixteenth of its
	// size in addition. No file may grow by more than a quarter of the room that is left.
	compactFrom = 4 << 20
	// defragFrom is the size below which a file is never defragmented.
	defragFrom = 128 << 20
	// nearlyFull is a share of the quota. If the file is larger than this share, there is a warning.
	nearlyFull = 0.8
)

// maintain calls tend every tendEvery, until ctx ends.
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

// remember adds a revision to the revisions of the latest rounds.
func remember(history []int64, revision int64) []int64 {
	history = append(history, revision)
	return history[max(0, len(history)-keepRounds):]
}

// compaction notes how far history was dropped, and how far it is to be dropped. A compaction looks at every key. With
// a million keys, a compaction every ten seconds would be most of the work of an idle controller.
type compaction struct {
	revision int64 // history up to this revision was dropped
	due      int64 // history up to this revision is to be dropped, as soon as it is keepRounds old
	used     int64 // bytes of the file that were used after the last compaction
	at       time.Time
}

// plan decides how much history is to be dropped. If the file has grown much, that is all history up to the revision
// now. If the last compaction was long ago, it is the history up to the revision oldest.
func (c *compaction) plan(now, oldest, used, quota int64) {
	if used-c.used > min(c.used/16+compactFrom, (quota-c.used)/4) {
		c.due = now
	}
	if time.Since(c.at) >= compactAfter {
		c.due = max(c.due, oldest)
	}
}

// tend does one round, and returns the current revision. history has the revisions of the rounds before. If there are
// keepRounds of them, and a compaction is due or etcd is full, tend drops the history before the oldest of these
// revisions. It defragments the file if that makes enough room, and ends the NOSPACE alarm if the file has room again.
//
// A full file is defragmented only if that frees an eighth of it: no read is answered meanwhile, and a smaller gain
// would be used up at once.
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

// warn logs that the file is nearly full. It logs this again only after the file was smaller.
func (s *Server) warn(size int64) {
	near := float64(size) > nearlyFull*float64(s.options.QuotaBytes)
	if near && !s.nearlyFull {
		s.options.Logger.Warn("the file of the embedded etcd is nearly as large as it may be; "+
			"when it is, nothing is given out or released any more",
			"size", size, "quota", s.options.QuotaBytes)
	}
	s.nearlyFull = near
}

// inUse returns how many bytes of the file are used. etcd counts these bytes when it commits to its file, and may not
// commit while it refuses all writes. So inUse commits a change that changes nothing.
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
