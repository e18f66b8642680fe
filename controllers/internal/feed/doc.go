// Package feed brings the controllers what happens in the workspaces. The provider has
// one cache for all workspaces of an endpoint; on that the feed has one handler for each
// watch, which finds the workspace that an object is of. So an event costs the same
// however many workspaces there are, and a workspace next to nothing.
//
//	endpoint's cache ── IPClaims ──▶ handler ──▶ the workspace's own handler ──▶ queue
//	                                    ▲
//	provider ── Engage ──▶ Feed ────────┘  from now on, and first of all what is there
//
// A workspace's handler sees what a watch of that workspace alone would show it: all
// objects that are there, then what becomes of them, in order, until the workspace is
// engaged no more. What an event says that came before is not lost, for the cache
// knew it already, and is read once the workspace is engaged.
package feed
