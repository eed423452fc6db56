package wasi

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
)

var (
	seed = flag.Uint64("seed", 1, "seed of the random operations")
	full = flag.Bool("full", false, "run many operations")
)

// heldBytes returns the memory that is in use after a garbage collection.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC() // finishes the first one's sweep
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A fileOperation is a random operation on an execution's files.
type fileOperation struct {
	kind     int
	name, to string
	size     int64
}

const (
	mkdirOperation = iota
	openOperation
	closeOperation
	unlinkOperation
	renameOperation
	growOperation
	shrinkOperation
	operationKinds
)

func randomOperations(r *rand.Rand, count int) []fileOperation {
	name := func() string { return fmt.Sprintf("d%d/f%d", r.IntN(4), r.IntN(20)) }
	all := make([]fileOperation, count)
	for i := range all {
		all[i] = fileOperation{kind: r.IntN(operationKinds), name: name(), to: name(), size: int64(r.IntN(8 << 20))}
		if all[i].kind == shrinkOperation {
			all[i].size = int64(r.IntN(2))
		}
	}
	return all
}

// A fileUser executes operations as the code in the sandbox does.
type fileUser struct {
	files *fileSystem
	open  []expsys.File
}

func (u *fileUser) execute(o fileOperation) {
	switch o.kind {
	case mkdirOperation:
		_ = u.files.Mkdir(o.name[:2], 0)
	case openOperation:
		path := o.name + strings.Repeat("/", int(o.size)) // a long path is rejected, a removed file stays open
		if o.size%2 == 0 {
			path = o.name
		}
		if h, errno := u.files.OpenFile(path, expsys.O_RDWR|expsys.O_CREAT, 0); errno == 0 {
			u.open = append(u.open, h)
		}
	case closeOperation:
		if len(u.open) > 4 {
			_, _ = u.open[0].Pwrite(make([]byte, o.size/16), o.size/4)
			u.open[0].Close()
			u.open = u.open[1:]
		}
	case unlinkOperation:
		_ = u.files.Unlink(o.name)
	case renameOperation:
		_ = u.files.Rename(o.name, o.to)
	default:
		if n, errno := u.files.findNode(o.name); errno == 0 && !n.isFolder() {
			_ = u.files.resizeNode(n, o.size)
		}
	}
}

// naiveFiles is the control: files whose sizes change as slices.
type naiveFiles map[string][]byte

func (n naiveFiles) execute(o fileOperation) {
	data := n[o.name]
	switch more := o.size - int64(len(data)); {
	case o.kind != growOperation && o.kind != shrinkOperation:
	case more <= 0:
		n[o.name] = slices.Clip(data[:o.size])
	case n.countBytes()+more <= maxFileBytes:
		n[o.name] = append(data, make([]byte, more)...)
	}
}

func (n naiveFiles) countBytes() (sum int64) {
	for _, data := range n {
		sum += int64(len(data))
	}
	return sum
}

// TestFilesHoldWhatIsCounted expects a file system's memory to stay close to its account, whatever
// the code does: at most 1.25 times the counted bytes, and 1 MiB for nodes, names and open files.
// Files whose sizes change as slices exceed that.
func TestFilesHoldWhatIsCounted(t *testing.T) {
	const bookkeeping = 1 << 20
	count := 3000
	if *full {
		count = 100_000
	}
	all := randomOperations(rand.New(rand.NewPCG(*seed, 0)), count)
	measure := func(execute func(fileOperation), counted func() int64) (exceeded int, most int64) {
		base := heldBytes()
		for i, o := range all {
			if execute(o); i%50 != 0 {
				continue
			}
			over := heldBytes() - base - counted()*5/4
			if most = max(most, over); over > bookkeeping {
				exceeded++
			}
		}
		return exceeded, most
	}
	u := &fileUser{files: newFileSystem()}
	exceeded, most := measure(u.execute, func() int64 { return u.files.bytes })
	runtime.KeepAlive(u)
	naive := naiveFiles{}
	exceededNaive, mostNaive := measure(naive.execute, naive.countBytes)
	if exceeded > 0 {
		t.Errorf("%d measurements exceed the account, by up to %d KiB", exceeded, most>>10)
	}
	if exceededNaive == 0 {
		t.Error("control: files that shrink as slices do not exceed their account")
	}
	t.Logf("shown: %d operations: files in the sandbox hold at most %d KiB more than 1.25 times their account; control, shrunk as slices: %d MiB more", count, most>>10, mostNaive>>20)
}

// TestShrunkFilesGrowEmpty expects a file that shrinks and grows again to have zeros there.
func TestShrunkFilesGrowEmpty(t *testing.T) {
	f := newFileSystem()
	n, _ := f.createNode("a", false)
	for _, size := range []int64{1000, 900, 1000, 10, 1000, 0, 3} {
		if errno := f.resizeNode(n, size); errno != 0 || int64(len(n.data)) != size || f.bytes != size {
			t.Fatalf("resized to %d: %d bytes, %d counted, %v", size, len(n.data), f.bytes, errno)
		}
		if i := slices.IndexFunc(n.data, func(b byte) bool { return b != 0 }); i >= 0 && i != 0 {
			t.Errorf("byte %d of %d is left from before", i, size)
		}
		for i := range n.data {
			n.data[i] = 1
		}
		if size > 1 {
			f.resizeNode(n, size/2)
			f.resizeNode(n, size)
			if slices.Contains(n.data[size/2:], 1) {
				t.Errorf("a file of %d bytes has its old content after shrinking", size)
			}
			clear(n.data)
		}
	}
}

// TestEmptiedFoldersShrink expects folders that have had many entries to return their memory. Go
// maps do not.
func TestEmptiedFoldersShrink(t *testing.T) {
	base := heldBytes()
	var naive []map[string]*node
	for range 400 {
		entries := map[string]*node{}
		for i := range 500 {
			entries[strconv.Itoa(i)] = nil
		}
		for name := range maps.Clone(entries) {
			delete(entries, name)
		}
		naive = append(naive, entries)
	}
	if held := heldBytes() - base; held < 4<<20 {
		t.Errorf("control: 400 emptied maps hold %d KiB", held>>10)
	}
	runtime.KeepAlive(naive)
	f := newFileSystem()
	base = heldBytes()
	for d := range 400 {
		dir := fmt.Sprintf("d%d", d)
		if errno := f.Mkdir(dir, 0); errno != 0 {
			t.Fatal(errno)
		}
		for i := range 500 {
			if _, errno := f.createNode(fmt.Sprintf("%s/%d%s", dir, i, strings.Repeat("/", 100)), false); errno != 0 {
				t.Fatal(errno)
			}
		}
		for i := range 500 {
			f.Unlink(fmt.Sprintf("%s/%d", dir, i))
		}
	}
	if held := heldBytes() - base; held > 1<<20 {
		t.Errorf("400 empty folders hold %d KiB", held>>10)
	}
	runtime.KeepAlive(f)
}

// TestReadOpenFolder expects an open folder's entries in order, once each, while others are added
// and removed, and again after a seek.
func TestReadOpenFolder(t *testing.T) {
	f := newFileSystem()
	for _, name := range []string{"a", "b", "c", "d"} {
		f.createNode(name, false)
	}
	h, _ := f.OpenFile("/", expsys.O_DIRECTORY, 0)
	read := func(n int) string {
		entries, _ := h.Readdir(n)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return strings.Join(names, " ")
	}
	first := read(2)
	f.Unlink("b")
	f.Unlink("c")
	f.createNode("e", false)
	got := []string{first, read(1), read(0), read(5)}
	_, errno := h.Seek(0, 0)
	if got = append(got, read(0)); !slices.Equal(got, []string{"a b", "d", "e tmp", "", "a d e tmp"}) || errno != 0 {
		t.Errorf("read %q, %v", got, errno)
	}
}
