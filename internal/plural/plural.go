// Package plural says how many there are of something. It imports nothing of this module.
package plural

import "fmt"

// Of returns a number with the word for one, or with that for any other number.
func Of[N ~int | ~string](n N, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}
