// Package packed keeps claims, their records and APIBindings in a cache in a tenth of the memory. Most fields have the
// same values in thousands of objects. Such values are kept once, as the shape of these objects, and each object keeps
// only its own values.
//
// Packed objects lose nothing but metadata which the controllers neither read nor write: managedFields, owners, labels
// of claims and records, and annotations that are not ours. An object is packed only if unpacking it returns the same,
// field by field. Otherwise it stays as it is. So this package needs no change when a field is added to a kind.
//
// APIBindings are only read. Before they are packed, they lose the fields that no controller reads.
//
// Reads that copy from such a cache return whole objects. Its event handlers get packed objects. They either pass them
// to Whole, or ask for the few values that they need, which costs less than a copy.
package packed
