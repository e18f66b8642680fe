// Package packed keeps claims and their records in a cache in a tenth of the memory. Most of
// what one says, thousands say alike: that is kept once, as their shape, and each keeps only
// what is its own.
//
// Nothing of them is lost but managedFields, which no part of the controllers reads or writes. An object
// is packed only if unpacking it gives back the same, field by field; one of which that is not
// true stays as it is. So a field that is added to a kind later needs no word here.
//
// APIBindings, which are only read, lose what is not.
//
// A cache that packs hands out whole objects to those that read copies. Its event handlers are
// called with what it keeps: give that to Whole first.
package packed
