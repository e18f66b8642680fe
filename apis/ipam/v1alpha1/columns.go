package v1alpha1

import (
	"fmt"
	"strings"
)

// Texts of the columns of kubectl get that no JSONPath can make. They repeat what other fields
// say, in status fields that are written with those.

// LengthsColumn is a range of prefix lengths, such as /24–/28; any without a range.
func LengthsColumn(r *PrefixLengthRange) string {
	switch {
	case r == nil:
		return "any"
	case r.Min == r.Max:
		return fmt.Sprintf("/%d", r.Min)
	default:
		return fmt.Sprintf("/%d–/%d", r.Min, r.Max)
	}
}

// classesShown is how many classes of a pool are listed by name.
const classesShown = 3

// ClassesColumn lists the classes that a pool backs, such as edge,internal; if there are many, the
// first by name and the number of the others, such as a,b,c,+2.
func ClassesColumn(names []string) string {
	if len(names) <= classesShown {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s,+%d", strings.Join(names[:classesShown], ","), len(names)-classesShown)
}

// UtilizationColumn is a share in percent, such as 37.5%. What is little is not shown as nothing,
// and what is much not as all.
func UtilizationColumn(percent float64) string {
	switch {
	case percent == 0 || percent == 100:
		return fmt.Sprintf("%.0f%%", percent)
	case percent < 0.1:
		return "<0.1%"
	case percent > 99.9:
		return ">99.9%"
	default:
		return fmt.Sprintf("%.1f%%", percent)
	}
}

// RequestedColumn is the block that a claim asks for by itself, such as /28 or 192.0.2.7; empty if
// it leaves that to its class or pool.
func RequestedColumn(spec IPClaimSpec) string {
	switch {
	case spec.Address != "":
		return spec.Address
	case spec.PrefixLength != 0:
		return fmt.Sprintf("/%d", spec.PrefixLength)
	default:
		return ""
	}
}
