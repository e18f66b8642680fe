package main

import (
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns a logger that writes JSON, one line for each decision, without stack traces: they would add nothing
// to the error.
func newLogger(verbosity int) logr.Logger {
	cfg := zap.NewProductionConfig()
	cfg.Level = zap.NewAtomicLevelAt(zapcore.Level(-verbosity)) //nolint:gosec // the verbosity is small
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
