// Package workspaces makes a kcp ready for IPAM. It is the one code path for it:
// `make run`, the tests, `ipam-controller --bootstrap` and the command line use it.
//
// [Bootstrap] prepares the platform workspace, which holds the classes, the platform's
// pools and the APIExport:
//
//	workspace → CRDs → policies → schemas → access → published classes → APIExport
//
// Policies come before the export, so that no tenant is ever bound without them.
// [EnsureTenant] prepares a workspace that binds the export.
//
// Both may be run again at any time: they change only what differs, and a live
// export moves its bound workspaces to new schemas. Fields are owned by the
// manager "kcp-ipam"; what others own on the same objects stays.
package workspaces
