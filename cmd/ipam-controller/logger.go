package main

import (
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger logs JSON, one line per decision. Stack traces would say nothing
// that the error does not.
func newLogger(verbosity int) logr.Logger {
	cfg := zap.NewProductionConfig()
	cfg.Level = zap.NewAtomicLevelAt(zapcore.Level(-verbosity)) //nolint:gosec // small by nature
	cfg.Sampling = nil
	cfg.DisableStacktrace = true
	cfg.DisableCaller = true
	cfg.EncoderConfig.TimeKey = "time"
	cfg.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	logger, err := cfg.Build()
	if err != nil {
		return logr.Discard()
	}
	return zapr.NewLogger(logger)
}
