// Package limit declares how large anything from outside may become: in bytes, values, depth and
// time. inputs.go is the table, from which docs/security.md is written; the code reads, decodes and
// waits by its rows, so that the table is what holds.
//
// Bytes are those after decompression. Values are JSON's keys, values, lists and objects: two JSON
// bytes may need a hundred bytes of memory, so a byte limit does not limit memory. Depth is how
// deep lists and objects are nested: decoders recurse on it.
package limit
