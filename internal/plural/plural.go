// Package plural says how many there are of something. It imports nothing of this module.
package plural

import "fmt"

// Of returns n with the word one if n is 1, else n with the word many.
func Of[N ~int | ~string](n N, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}
