package wasi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"agenthost/internal/limit"
)

// Limits for an execution's file system.
const (
	maxFileBytes = 64 << 20
	maxFiles     = 1000
	maxHandles   = 1000
	// maxFolderHandles limits the open folders, because each can have a copy of its list.
	maxFolderHandles = 100
	maxName          = 255
	// maxPath limits the paths in calls: the runtime keeps an open file's path.
	maxPath = 4096
	// maxCollected limits the files that become artifacts; limit.ProgramFiles has their size.
	maxCollected = 50
)

// A fileSystem is the file system of one execution, which is a single thread. It lies in
// memory and has no links. The zero errno is success.
//
// The account and the memory stay together: the arrays of all files have at most 1.25 times
// the counted bytes. A shrunk file, a folder that was emptied and a name have memory of their
// own, not a slice of something larger.
type fileSystem struct {
	expsys.UnimplementedFS
	root *node
	// bytes, files, handles and the folders among them are in use; lastID is the ID of the
	// last new node.
	bytes         int64
	files         int
	handles       int
	folderHandles int
	lastID        uint64
	// exceeded is the first limit that the code has exceeded.
	exceeded error
}

// A node is a file or a folder.
type node struct {
	// entries is nil for a file. most is how many entries the map has had at most: maps do not
	// shrink.
	entries  map[string]*node
	most     int
	data     []byte
	id       uint64
	modified int64
	// changed is set if the code has created, written or renamed the file.
	changed bool
	// handles counts the open files; removed reports that no folder has the node.
	handles int
	removed bool
}

func (n *node) isFolder() bool { return n.entries != nil }

// newFileSystem returns a file system with the folder /tmp.
func newFileSystem() *fileSystem {
	f := &fileSystem{}
	f.root = f.newNode(true)
	f.root.entries["tmp"] = f.newNode(true)
	return f
}

func (f *fileSystem) newNode(folder bool) *node {
	f.lastID++
	n := &node{id: f.lastID, modified: time.Now().UnixNano()}
	if folder {
		n.entries = map[string]*node{}
	}
	return n
}

// writeFiles adds files, with their folders.
func (f *fileSystem) writeFiles(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for i := range name {
			if name[i] == '/' {
				_ = f.Mkdir(name[:i], 0) // if it fails, so does the file
			}
		}
		n, errno := f.createNode(name, false)
		if errno == 0 {
			errno = f.writeNode(n, files[name], 0)
		}
		if errno != 0 {
			return fmt.Errorf("writing the file %s: %w", name, errors.Join(f.exceeded, errno))
		}
		n.changed = false
	}
	return nil
}

// collectFiles returns the files that match one of the patterns and have changed.
func (f *fileSystem) collectFiles(patterns []string) (map[string][]byte, error) {
	files, left := map[string][]byte{}, int64(limit.ProgramFiles.Bytes)
	var collect func(dir string, at *node) error
	collect = func(dir string, at *node) error {
		for base, n := range at.entries {
			name := path.Join(dir, base)
			switch {
			case n.isFolder():
				if err := collect(name, n); err != nil {
					return err
				}
			case n.changed && slices.ContainsFunc(patterns, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }):
				if left -= int64(len(n.data)); left < 0 {
					return fmt.Errorf("all collected files exceed the limit of %d MiB", limit.ProgramFiles.Bytes>>20)
				}
				files[name] = n.data
			}
		}
		return nil
	}
	err := collect("", f.root)
	if err == nil && len(files) > maxCollected {
		err = fmt.Errorf("more than %d files match", maxCollected)
	}
	if err != nil {
		return nil, err
	}
	return files, nil
}

// findNode returns the node at a path.
func (f *fileSystem) findNode(name string) (*node, expsys.Errno) {
	at := f.root
	for _, base := range splitPath(name) {
		if !at.isFolder() {
			return nil, expsys.ENOTDIR
		}
		if at = at.entries[base]; at == nil {
			return nil, expsys.ENOENT
		}
	}
	return at, 0
}

// findParent returns a path's folder, and the base name.
func (f *fileSystem) findParent(name string) (*node, string, expsys.Errno) {
	parts := splitPath(name)
	if len(parts) == 0 {
		return nil, "", expsys.EINVAL
	}
	base := parts[len(parts)-1]
	parent, errno := f.findNode(strings.Join(parts[:len(parts)-1], "/"))
	switch {
	case errno != 0:
		return nil, "", errno
	case !parent.isFolder():
		return nil, "", expsys.ENOTDIR
	case len(base) > maxName:
		return nil, "", expsys.ENAMETOOLONG
	}
	return parent, strings.Clone(base), 0 // the path can be much longer
}

// addEntry adds a node to a folder.
func (n *node) addEntry(base string, entry *node) {
	n.entries[base] = entry
	n.most = max(n.most, len(n.entries))
}

// deleteEntry deletes a folder entry. It replaces a map that has become much too large.
func (n *node) deleteEntry(base string) {
	delete(n.entries, base)
	if n.most > 16 && len(n.entries) < n.most/4 {
		smaller := make(map[string]*node, len(n.entries))
		maps.Copy(smaller, n.entries)
		n.entries, n.most = smaller, len(smaller)
	}
}

// splitPath returns the names in a path; ".." does not leave the root.
func splitPath(name string) []string {
	return strings.FieldsFunc(path.Clean("/"+name), func(r rune) bool { return r == '/' })
}

// createNode adds a new file or folder.
func (f *fileSystem) createNode(name string, folder bool) (*node, expsys.Errno) {
	parent, base, errno := f.findParent(name)
	switch {
	case errno != 0:
		return nil, errno
	case parent.entries[base] != nil:
		return nil, expsys.EEXIST
	case parent.removed:
		return nil, expsys.ENOENT
	case f.files >= maxFiles:
		return nil, f.exceedLimit(fmt.Errorf("the files exceed the limit of %d files and folders", maxFiles))
	}
	f.files++
	n := f.newNode(folder)
	n.changed = true
	parent.addEntry(base, n)
	return n, 0
}

// exceedLimit records a limit for the result, since WASI has few error codes.
func (f *fileSystem) exceedLimit(err error) expsys.Errno {
	if f.exceeded == nil {
		f.exceeded = err
	}
	return expsys.EIO
}

// writeNode writes to a file.
func (f *fileSystem) writeNode(n *node, data []byte, offset int64) expsys.Errno {
	if offset < 0 || offset > maxFileBytes {
		return f.resizeNode(n, maxFileBytes+1)
	}
	if end := offset + int64(len(data)); end > int64(len(n.data)) {
		if errno := f.resizeNode(n, end); errno != 0 {
			return errno
		}
	}
	copy(n.data[offset:], data)
	n.changed, n.modified = true, time.Now().UnixNano()
	return 0
}

// resizeNode changes a file's size.
func (f *fileSystem) resizeNode(n *node, size int64) expsys.Errno {
	if size < 0 {
		return expsys.EINVAL
	}
	more := size - int64(len(n.data))
	if f.bytes+more > maxFileBytes {
		return f.exceedLimit(fmt.Errorf("the files exceed the limit of %d MiB", maxFileBytes>>20))
	}
	f.bytes += more
	n.data = resizeBytes(n.data, size)
	n.changed, n.modified = true, time.Now().UnixNano()
	return 0
}

// resizeBytes returns data with another size. Its array is at most a quarter larger than the
// data, so that growing is fast and a file that shrinks returns its memory.
func resizeBytes(data []byte, size int64) []byte {
	if size == 0 {
		return nil
	}
	room := size + size/4
	if size > int64(cap(data)) || room < int64(cap(data)) {
		resized := make([]byte, size, room)
		copy(resized, data)
		return resized
	}
	old := len(data)
	data = data[:size]
	if int(size) > old {
		clear(data[old:]) // it may have been part of the file before
	}
	return data
}

// removeNode removes a node from its folder.
func (f *fileSystem) removeNode(parent *node, base string) {
	n := parent.entries[base]
	parent.deleteEntry(base)
	n.removed = true
	f.freeNode(n)
}

// freeNode returns what a removed node uses, once it has no handles.
func (f *fileSystem) freeNode(n *node) {
	if n.removed && n.handles == 0 {
		f.files--
		f.bytes -= int64(len(n.data))
		n.data = nil
	}
}

// OpenFile implements [expsys.FS].
func (f *fileSystem) OpenFile(name string, flag expsys.Oflag, _ fs.FileMode) (expsys.File, expsys.Errno) {
	writes := flag&(expsys.O_RDWR|expsys.O_WRONLY|expsys.O_TRUNC) != 0
	n, errno := f.findNode(name)
	switch {
	case len(name) > maxPath:
		return nil, expsys.ENAMETOOLONG
	case f.handles >= maxHandles:
		return nil, f.exceedLimit(fmt.Errorf("the open files exceed the limit of %d", maxHandles))
	case errno == expsys.ENOENT && flag&expsys.O_CREAT != 0:
		if n, errno = f.createNode(name, false); errno != 0 {
			return nil, errno
		}
	case errno != 0:
		return nil, errno
	case flag&expsys.O_CREAT != 0 && flag&expsys.O_EXCL != 0:
		return nil, expsys.EEXIST
	}
	switch {
	case flag&expsys.O_DIRECTORY != 0 && !n.isFolder():
		return nil, expsys.ENOTDIR
	case writes && n.isFolder():
		return nil, expsys.EISDIR
	case n.isFolder() && f.folderHandles >= maxFolderHandles:
		return nil, f.exceedLimit(fmt.Errorf("the open folders exceed the limit of %d", maxFolderHandles))
	case flag&expsys.O_TRUNC != 0:
		if errno := f.resizeNode(n, 0); errno != 0 {
			return nil, errno
		}
	}
	f.handles++
	n.handles++
	if n.isFolder() {
		f.folderHandles++
	}
	return openFile[int64]{&handle{
		files: f, node: n, atEnd: flag&expsys.O_APPEND != 0,
		writable: flag&(expsys.O_RDWR|expsys.O_WRONLY) != 0, readable: flag&expsys.O_WRONLY == 0,
	}}, 0
}

// Stat implements [expsys.FS].
func (f *fileSystem) Stat(name string) (sys.Stat_t, expsys.Errno) {
	n, errno := f.findNode(name)
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	return n.newStat(), 0
}

// Lstat implements [expsys.FS].
func (f *fileSystem) Lstat(name string) (sys.Stat_t, expsys.Errno) { return f.Stat(name) }

func (n *node) newStat() sys.Stat_t {
	mode := fs.FileMode(0o600)
	if n.isFolder() {
		mode = fs.ModeDir | 0o700
	}
	return sys.Stat_t{Dev: 1, Ino: n.id, Mode: mode, Nlink: 1, Size: int64(len(n.data)), Atim: n.modified, Mtim: n.modified, Ctim: n.modified}
}

// Mkdir implements [expsys.FS].
func (f *fileSystem) Mkdir(name string, _ fs.FileMode) expsys.Errno {
	if len(splitPath(name)) == 0 {
		return expsys.EEXIST
	}
	_, errno := f.createNode(name, true)
	return errno
}

// Rmdir implements [expsys.FS].
func (f *fileSystem) Rmdir(name string) expsys.Errno {
	return f.removeChecked(name, true)
}

// Unlink implements [expsys.FS].
func (f *fileSystem) Unlink(name string) expsys.Errno {
	return f.removeChecked(name, false)
}

func (f *fileSystem) removeChecked(name string, folder bool) expsys.Errno {
	parent, base, errno := f.findParent(name)
	if errno != 0 {
		return errno
	}
	n := parent.entries[base]
	if errno := checkRemovable(n, folder); errno != 0 {
		return errno
	}
	f.removeNode(parent, base)
	return 0
}

// checkRemovable returns why a node cannot be removed as a folder or as a file.
func checkRemovable(n *node, folder bool) expsys.Errno {
	switch {
	case n == nil:
		return expsys.ENOENT
	case folder && !n.isFolder():
		return expsys.ENOTDIR
	case !folder && n.isFolder():
		return expsys.EISDIR
	case len(n.entries) > 0:
		return expsys.ENOTEMPTY
	}
	return 0
}

// Rename implements [expsys.FS].
func (f *fileSystem) Rename(from, to string) expsys.Errno {
	oldParent, oldBase, errno := f.findParent(from)
	if errno != 0 {
		return errno
	}
	parent, base, errno := f.findParent(to)
	n := oldParent.entries[oldBase]
	switch {
	case errno != 0:
		return errno
	case n == nil:
		return expsys.ENOENT
	case n == parent.entries[base]:
		return 0
	case n.isFolder() && slices.Equal(splitPath(from), splitPath(to)[:min(len(splitPath(from)), len(splitPath(to)))]):
		return expsys.EINVAL // into itself
	}
	if parent.entries[base] != nil {
		if errno := checkRemovable(parent.entries[base], n.isFolder()); errno != 0 {
			return errno
		}
		f.removeNode(parent, base)
	}
	oldParent.deleteEntry(oldBase)
	parent.addEntry(base, n)
	n.changed = true
	return 0
}

// Chmod implements [expsys.FS]; modes have no meaning.
func (f *fileSystem) Chmod(name string, _ fs.FileMode) expsys.Errno {
	_, errno := f.findNode(name)
	return errno
}

// Utimens implements [expsys.FS].
func (f *fileSystem) Utimens(name string, _, modified int64) expsys.Errno {
	n, errno := f.findNode(name)
	if errno != 0 {
		return errno
	}
	n.setModified(modified)
	return 0
}

func (n *node) setModified(modified int64) {
	if modified != expsys.UTIME_OMIT {
		n.modified = modified
	}
}
