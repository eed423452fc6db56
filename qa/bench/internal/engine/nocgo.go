//go:build !cgo

package engine

// cgo reports whether SQLite's C engine is available.
const cgo = false
