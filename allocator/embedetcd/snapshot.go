package embedetcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Snapshot writes a copy of the data, followed by its checksum, as etcd sends it to a client. The server goes on
// meanwhile. After Close, Snapshot fails with rpctypes.ErrGRPCStopped.
func (s *Server) Snapshot(ctx context.Context, to io.Writer) error {
	_, err := pass(ctx, s.gate, s.copyTo, to)
	return err
}

func (s *Server) copyTo(_ context.Context, to io.Writer) (copied int64, err error) {
	snapshot, sum := s.etcd.Server.Backend().Snapshot(), sha256.New()
	if copied, err = snapshot.WriteTo(io.MultiWriter(to, sum)); err == nil {
		_, err = to.Write(sum.Sum(nil))
	}
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return copied, fmt.Errorf("copy the data: %w", err)
	}
	return copied, nil
}
