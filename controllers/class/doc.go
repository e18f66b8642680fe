// Package class checks IPClasses: that their provisioner is served here, that
// their family has one default, and how many pools of the platform offer them.
// It keeps the label that shows a class in the tenants' workspaces.
package class
