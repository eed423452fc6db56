package main

import (
	"strings"
	"syscall"
	"unsafe"
)

//go:wasmimport wasi_snapshot_preview1 path_create_directory
//go:noescape
func createDirectory(parent int32, path unsafe.Pointer, length uint32) syscall.Errno

// createLong creates a folder by a path with a number of bytes, as the system gets it: package os
// would shorten it.
func createLong(length int) error {
	const root = 3
	path := []byte("a" + strings.Repeat("/.", length/2))
	if errno := createDirectory(root, unsafe.Pointer(&path[0]), uint32(len(path))); errno != 0 {
		return errno
	}
	return nil
}
