package page

import (
	"net/http"
	"strconv"
)

// perPage is how many rows are shown at once.
const perPage = 500

// paged is a part of many rows.
type paged[T any] struct {
	Rows []T
	// First and Last number the rows that are shown, of Total.
	First, Last, Total int
	// Before and After lead to the other rows; empty for none.
	Before, After string
}

// paging returns the rows that a request asks for.
func paging[T any](r *http.Request, all []T) paged[T] {
	number, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || number < 1 || number > 1+(len(all)-1)/perPage {
		number = 1
	}
	first, last := (number-1)*perPage, min(number*perPage, len(all))
	shown := paged[T]{Rows: all[first:last], First: first + 1, Last: last, Total: len(all)}
	link := func(number int) string {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(number))
		return r.URL.EscapedPath() + "?" + query.Encode()
	}
	if number > 1 {
		shown.Before = link(number - 1)
	}
	if last < len(all) {
		shown.After = link(number + 1)
	}
	return shown
}
