package kcp

import (
	"context"
	"errors"
	"sync"
	"time"
)

// besideStorm measures one client of a tenant while many of another claim from the same
// pool. The processor time is by all their answers.
func (s *side) besideStorm(ctx context.Context, k kind, during time.Duration) (round, error) {
	storming := *s
	storming.tenants = s.tenants[1:2]
	quiet := *s
	quiet.tenants = s.tenants[:1]
	var calm, wild round
	var both sync.WaitGroup
	var errs [2]error
	both.Go(func() { wild, errs[0] = storming.crowd(ctx, k, storm, during) })
	both.Go(func() { calm, errs[1] = quiet.crowd(ctx, k, 1, during) })
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return round{}, err
	}
	calm.answers += wild.answers
	return calm, nil
}
