// Package feed gives the controllers the events of all workspaces. The provider has one cache for all workspaces of an
// endpoint. On that cache the feed has one handler for each watch, which finds the workspace of an object. So the cost
// of an event does not grow with the number of workspaces, and a workspace costs next to nothing.
//
//	endpoint's cache ── IPClaims ──▶ handler ──▶ the workspace's own handler ──▶ queue
//	                                    ▲
//	provider ── Engage ──▶ Feed ────────┘  first all objects of the workspace, then its events
//
// A workspace's handler sees what a watch of that workspace alone would show: all objects that exist, then their
// events, in order, until the workspace is disengaged. No event from before the engagement is lost: the cache had it
// already, and the feed reads the cache when the workspace is engaged.
package feed
