//go:build !cgo

package engine

// cgo says whether the program has SQLite's engine in C.
const cgo = false
