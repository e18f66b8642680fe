package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// faults handles the log lines of etcd. A fatal line means that etcd cannot go on. etcd would end the process then.
// faults ends only the goroutine that has logged the line, and keeps the fault.
type faults struct {
	logger *slog.Logger
	first  chan struct{} // closed at the first fault

	mu    sync.Mutex
	fault error
	muted bool
}

func newFaults(logger *slog.Logger) *faults {
	return &faults{logger: logger, first: make(chan struct{})}
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

// mute ends the logging. The goroutines of an etcd that has failed run until the process ends, and the caller's logger
// may end before.
func (f *faults) mute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.muted = true
}

func (f *faults) log(line string, attrs []slog.Attr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.muted {
		f.logger.LogAttrs(context.Background(), slog.LevelError, line, attrs...)
	}
}

// zap returns the logger for etcd, which passes its lines to f.
func (f *faults) zap() *zap.Logger {
	return zap.New(core{faults: f}, zap.WithFatalHook(f), zap.WithPanicHook(f))
}

// OnWrite is called after a fatal line was logged. It keeps the first fault, and ends the goroutine that has logged it.
func (f *faults) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.mu.Lock()
	if f.fault == nil {
		f.fault = plain(entry.Message, errorIn(fields))
		close(f.first)
	}
	f.mu.Unlock()
	runtime.Goexit()
}

// plain puts a fault into plain words.
func plain(message string, err error) error {
	if err == nil {
		return errors.New(message)
	}
	err = fmt.Errorf("%s: %w", message, err)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("the disk is full; make room and start again: %w", err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data directory cannot be read and written by this user: %w", err)
	case damaged(err):
		return fmt.Errorf("the data is damaged; restore the directory from a backup: %w", err)
	}
	return err
}

// signsOfDamage are words of etcd and bbolt about files that cannot be read. There are no error values for these.
var signsOfDamage = []string{
	"crc mismatch", "CRC mismatch", "checksum error", "invalid database", "version mismatch",
	"file size too small", "corrupt", "unexpected EOF", "missing",
}

func damaged(err error) bool {
	return slices.ContainsFunc(signsOfDamage, func(sign string) bool {
		return strings.Contains(err.Error(), sign)
	})
}

func errorIn(fields []zapcore.Field) error {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}

// untrueError is a line that etcd logs as an error during the first seconds of every new data directory.
// Nothing is wrong then.
const untrueError = "failed to update storage version"

// core passes etcd's errors to slog. It drops warnings: they concern clusters of several members, or an error follows.
type core struct {
	faults *faults
	fields []zapcore.Field
}

func (c core) Enabled(level zapcore.Level) bool { return level >= zapcore.ErrorLevel }

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{faults: c.faults, fields: append(slices.Clip(c.fields), fields...)}
}

func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || entry.Message == untrueError {
		return checked
	}
	return checked.AddCore(entry, c)
}

func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, field := range append(slices.Clip(c.fields), fields...) {
		field.AddTo(values)
	}
	attrs := make([]slog.Attr, 0, len(values.Fields))
	for key, value := range values.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	c.faults.log("etcd: "+entry.Message, attrs)
	return nil
}

func (c core) Sync() error { return nil }
