package output

// Walk calls draw for a node of a tree and for each below it, with the signs that lead to its line.
func Walk[N any](node N, below func(N) []N, draw func(lead string, node N)) {
	walk(node, "", "", below, draw)
}

// walk draws a node behind lead, and those below it behind rest.
func walk[N any](node N, lead, rest string, below func(N) []N, draw func(string, N)) {
	draw(lead, node)
	children := below(node)
	for i, child := range children {
		if i == len(children)-1 {
			walk(child, rest+"└─ ", rest+"   ", below, draw)
			continue
		}
		walk(child, rest+"├─ ", rest+"│  ", below, draw)
	}
}
