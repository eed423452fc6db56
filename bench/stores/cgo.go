//go:build cgo

package main

// cgo says whether the program has SQLite's engine in C.
const cgo = true
