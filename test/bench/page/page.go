// Package page writes measurements into the page of measurements. People write the prose around them.
package page

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Write puts text between the marks of a section of a Markdown file, and replaces what is there. The marks stay: <!--
// name:begin --> and <!-- name:end -->, each on a line of its own.
func Write(file, section, text string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := mark(section, "begin"), mark(section, "end")
	head, rest, opened := bytes.Cut(data, begin)
	_, tail, closed := bytes.Cut(rest, end)
	if !opened || !closed {
		return fmt.Errorf("write to %s: put the marks %q and %q where the tables shall stand", file, begin, end)
	}
	body := []byte("\n" + strings.TrimSpace(text) + "\n\n")
	return os.WriteFile(file, bytes.Join([][]byte{head, begin, body, end, tail}, nil), 0o644)
}

func mark(section, side string) []byte {
	return fmt.Appendf(nil, "<!-- %s:%s -->\n", section, side)
}

// Spread writes the median of values and, in brackets, their quartiles; a dash if one of them was not measured.
func Spread(format string, values []float64) string {
	if slices.ContainsFunc(values, math.IsNaN) {
		return "–"
	}
	return fmt.Sprintf("**"+format+"** ("+format+"–"+format+")",
		Quantile(values, 0.5), Quantile(values, 0.25), Quantile(values, 0.75))
}

// Quantile returns a quantile of values. If it falls between two values, it is interpolated. There must be a value.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	below, part := math.Modf(q * float64(len(sorted)-1))
	low := sorted[int(below)]
	high := sorted[min(int(below)+1, len(sorted)-1)]
	return low + part*(high-low)
}

// Machine describes where the program runs: cores, memory (on Linux) and Go.
func Machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if memory, ok := memory(); ok {
		parts = append(parts, fmt.Sprintf("%.0f GiB of memory", memory))
	}
	return strings.Join(append(parts, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version()), ", ")
}

// memory returns the size of the machine's memory in GiB, if the system tells.
func memory() (float64, bool) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		return kib / (1 << 20), err == nil
	}
	return 0, false
}
