// Package limit declares how large anything from outside may become: in bytes, values,
// depth and time. inputs.go is the table, from which docs/security.md is written; the
// code reads, decodes and waits by its rows, so that the table is what holds.
//
// Bytes are those after decompression. Values are the keys, values, lists and objects of
// JSON: two bytes of JSON may need a hundred bytes of memory, so a limit of bytes is none
// of memory. Depth is the nesting of lists and objects, on which decoders recurse.
package limit
