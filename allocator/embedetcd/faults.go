package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// faults is what etcd logs. A line that etcd calls fatal means that it cannot go
// on; there it would end the process without a word to anybody. Here it ends
// the goroutine, and the fault is kept.
type faults struct {
	logger *slog.Logger
	first  chan struct{} // closed at the first fault

	mu    sync.Mutex
	fault error
}

func newFaults(logger *slog.Logger) *faults {
	return &faults{logger: logger, first: make(chan struct{})}
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

// zap is a logger that ends up here.
func (f *faults) zap() *zap.Logger {
	return zap.New(core{faults: f}, zap.WithFatalHook(f), zap.WithPanicHook(f))
}

// OnWrite is called for fatal lines, after they were written.
func (f *faults) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.mu.Lock()
	if f.fault == nil {
		f.fault = plain(entry.Message, errorIn(fields))
		close(f.first)
	}
	f.mu.Unlock()
	runtime.Goexit()
}

// plain says what a fault means.
func plain(message string, err error) error {
	if err == nil {
		return errors.New(message)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("the disk is full; make room and start again: %s: %w", message, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data directory cannot be read and written by this user: %s: %w", message, err)
	case damaged(message, err):
		return fmt.Errorf("the data is damaged; restore the directory from a backup: %s: %w", message, err)
	}
	return fmt.Errorf("%s: %w", message, err)
}

// damaged recognises what etcd and bbolt say about files they cannot read. They
// have no error values for all of these.
func damaged(message string, err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	text := message + " " + err.Error()
	for _, sign := range []string{"crc mismatch", "CRC mismatch", "invalid database", "checksum error", "version mismatch", "corrupt", "wrong type", "unexpected EOF", "file not found", "WAL"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func errorIn(fields []zapcore.Field) error {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}

// untrueError is what etcd logs as an error during the first seconds of every
// new data directory.
const untrueError = "failed to update storage version"

// core hands etcd's lines to slog, from warnings up.
type core struct {
	faults *faults
	fields []zapcore.Field
}

func (c core) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{faults: c.faults, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || entry.Message == untrueError {
		return checked
	}
	return checked.AddCore(entry, c)
}

func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if entry.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	values := zapcore.NewMapObjectEncoder()
	for _, field := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		field.AddTo(values)
	}
	attrs := make([]slog.Attr, 0, len(values.Fields))
	for key, value := range values.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	c.faults.logger.LogAttrs(context.Background(), level, "etcd: "+entry.Message, attrs...)
	return nil
}

func (c core) Sync() error { return nil }
