package main

import (
	"fmt"
	"math"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// bar draws how much of a pool is taken, and how much of that cools: ███▒░░░░  50.0%.
func (p paint) bar(pool *ipamv1alpha1.IPPool) tinted {
	const width = 16
	if pool.Status.UtilizationPercent == nil {
		return tinted(strings.Repeat(" ", width) + "       -")
	}
	percent := min(max(*pool.Status.UtilizationPercent, 0), 100)
	full := int(math.Round(percent / 100 * width))
	if full == 0 && percent > 0 {
		full = 1
	}
	cooling := coolingCells(pool, full, width)
	return p.level(percent, strings.Repeat("█", full-cooling)+strings.Repeat("▒", cooling)+strings.Repeat("░", width-full)) + tinted(fmt.Sprintf("  %6s", ipamv1alpha1.UtilizationColumn(percent)))
}

// level colours a bar by how full it is.
func (p paint) level(percent float64, drawn string) tinted {
	switch {
	case percent >= 90:
		return p.red(drawn)
	case percent >= 75:
		return p.yellow(drawn)
	default:
		return p.green(drawn)
	}
}

// largestFree is the largest block that a pool could still give.
func largestFree(pool *ipamv1alpha1.IPPool) string {
	if pool.Status.LargestFreePrefix == nil {
		return ""
	}
	return fmt.Sprintf("/%d", *pool.Status.LargestFreePrefix)
}

// utilisation is how much of a pool is taken, in percent.
func utilisation(pool *ipamv1alpha1.IPPool) string {
	if pool.Status.UtilizationPercent == nil {
		return ""
	}
	return ipamv1alpha1.UtilizationColumn(*pool.Status.UtilizationPercent)
}

// lengthsOf are the lengths that a range allows, in words.
func lengthsOf(least, most int32) string {
	switch {
	case least == 0 && most == 0:
		return ""
	case least == most:
		return fmt.Sprintf("/%d only", least)
	case most == 0:
		return fmt.Sprintf("/%d and longer", least)
	case least == 0:
		return fmt.Sprintf("up to /%d", most)
	default:
		return fmt.Sprintf("/%d to /%d", least, most)
	}
}
