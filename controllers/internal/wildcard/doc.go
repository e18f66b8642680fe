// Package wildcard caches the objects of all workspaces that an endpoint of kcp shows. It does the same as package
// cache of kcp's multicluster-provider, except in two points, which matter for hundreds of thousands of objects:
//
//   - A watch decodes each event once, and each object by itself: see package source. The decoder of client-go
//     reads an event seven times, and takes ten times as long (BenchmarkDecode of package decode). Most of a
//     controller's start is spent there, because a server sends the first list as events, too.
//   - The only index is that of the logical cluster. An index by namespace would take a third of a KiB
//     for each workspace and kind.
package wildcard
