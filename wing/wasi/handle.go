package wasi

import (
	"io"
	"maps"
	"slices"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// A handle is an open file or folder.
type handle struct {
	expsys.UnimplementedFile
	files              *fileSystem
	node               *node
	readable, writable bool
	atEnd              bool
	offset             int64
	// listed is the last folder entry that was read.
	listed string
	closed bool
}

// Dev implements [expsys.File].
func (h *handle) Dev() (uint64, expsys.Errno) { return 1, 0 }

// Ino implements [expsys.File].
func (h *handle) Ino() (sys.Inode, expsys.Errno) { return h.node.id, 0 }

// IsDir implements [expsys.File].
func (h *handle) IsDir() (bool, expsys.Errno) { return h.node.isFolder(), 0 }

// IsAppend implements [expsys.File].
func (h *handle) IsAppend() bool { return h.atEnd }

// SetAppend implements [expsys.File].
func (h *handle) SetAppend(enable bool) expsys.Errno {
	h.atEnd = enable
	return 0
}

// Stat implements [expsys.File].
func (h *handle) Stat() (sys.Stat_t, expsys.Errno) { return h.node.newStat(), 0 }

// Read implements [expsys.File].
func (h *handle) Read(b []byte) (int, expsys.Errno) {
	n, errno := h.Pread(b, h.offset)
	h.offset += int64(n)
	return n, errno
}

// Pread implements [expsys.File].
func (h *handle) Pread(b []byte, offset int64) (int, expsys.Errno) {
	switch {
	case h.node.isFolder():
		return 0, expsys.EISDIR
	case !h.readable:
		return 0, expsys.EBADF
	case offset < 0:
		return 0, expsys.EINVAL
	case offset >= int64(len(h.node.data)):
		return 0, 0
	}
	return copy(b, h.node.data[offset:]), 0
}

// An openFile is a handle with the method Seek. Its parameter is always int64: go vet accepts no
// method with that name but [io.Seeker]'s.
type openFile[T ~int64] struct{ *handle }

var _ expsys.File = openFile[int64]{}

// Seek implements [expsys.File].
func (h openFile[T]) Seek(offset T, from int) (T, expsys.Errno) {
	at, errno := h.setOffset(int64(offset), from)
	return T(at), errno
}

func (h *handle) setOffset(offset int64, from int) (int64, expsys.Errno) {
	if h.node.isFolder() {
		if offset != 0 || from != io.SeekStart {
			return 0, expsys.EINVAL
		}
		h.listed = "" // list the folder again
		return 0, 0
	}
	switch from {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += h.offset
	case io.SeekEnd:
		offset += int64(len(h.node.data))
	default:
		return 0, expsys.EINVAL
	}
	if offset < 0 {
		return 0, expsys.EINVAL
	}
	h.offset = offset
	return offset, 0
}

// Readdir implements [expsys.File]. It returns the entries ordered by name, so that no handle needs
// its own list.
func (h *handle) Readdir(n int) ([]expsys.Dirent, expsys.Errno) {
	if !h.node.isFolder() {
		return nil, expsys.EBADF
	}
	names := slices.Sorted(maps.Keys(h.node.entries))
	first, found := slices.BinarySearch(names, h.listed)
	if found {
		first++
	}
	names = names[first:]
	if n > 0 && n < len(names) {
		names = names[:n]
	}
	read := make([]expsys.Dirent, 0, len(names))
	for _, name := range names {
		entry := h.node.entries[name]
		read = append(read, expsys.Dirent{Ino: entry.id, Name: name, Type: entry.newStat().Mode.Type()})
		h.listed = name
	}
	return read, 0
}

// Write implements [expsys.File].
func (h *handle) Write(b []byte) (int, expsys.Errno) {
	if h.atEnd {
		h.offset = int64(len(h.node.data))
	}
	n, errno := h.Pwrite(b, h.offset)
	h.offset += int64(n)
	return n, errno
}

// Pwrite implements [expsys.File].
func (h *handle) Pwrite(b []byte, offset int64) (int, expsys.Errno) {
	if errno := h.checkWritable(); errno != 0 {
		return 0, errno
	}
	if errno := h.files.writeNode(h.node, b, offset); errno != 0 {
		return 0, errno
	}
	return len(b), 0
}

// Truncate implements [expsys.File].
func (h *handle) Truncate(size int64) expsys.Errno {
	if errno := h.checkWritable(); errno != 0 {
		return errno
	}
	return h.files.resizeNode(h.node, size)
}

func (h *handle) checkWritable() expsys.Errno {
	switch {
	case h.node.isFolder():
		return expsys.EISDIR
	case !h.writable:
		return expsys.EBADF
	}
	return 0
}

// Sync implements [expsys.File].
func (h *handle) Sync() expsys.Errno { return 0 }

// Datasync implements [expsys.File].
func (h *handle) Datasync() expsys.Errno { return 0 }

// Utimens implements [expsys.File].
func (h *handle) Utimens(_, modified int64) expsys.Errno {
	h.node.setModified(modified)
	return 0
}

// Close implements [expsys.File].
func (h *handle) Close() expsys.Errno {
	if h.closed {
		return 0
	}
	h.closed = true
	h.files.handles--
	h.node.handles--
	if h.node.isFolder() {
		h.files.folderHandles--
	}
	h.files.freeNode(h.node)
	return 0
}
