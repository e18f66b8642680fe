// Package class checks IPClasses: that their provisioner is served here, that no other class is the default of their
// family, and that pools of the platform offer them. It keeps the label that shows a class in the tenants' workspaces.
package class
