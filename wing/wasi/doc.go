// Package wasi runs code in interpreters that are WebAssembly modules with the interface
// WASI preview 1. An execution has no network, environment and host files: only a file
// system in memory, a clock and random numbers.
package wasi
