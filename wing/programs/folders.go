package programs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
)

// Folder limits: how many of a host's sessions have one at the same time, and how long an unused
// folder stays. Beyond the first limit, the longest unused folder is deleted earlier, so that one
// user's sessions cannot lock out the others.
const (
	maxFolders = 1000
	maxIdle    = time.Hour
)

// firstUser and userCount are the sandbox user IDs if the host runs as root.
const (
	firstUser = 30_000
	userCount = 30_000
)

// folders are the sessions' folders. They are deleted after an hour without use, and with the
// process.
type folders struct {
	// removing are the running folder deletions.
	removing sync.WaitGroup

	mu     sync.Mutex
	parent string
	// base is empty before the first program runs.
	base  string
	byKey map[string]*folder
}

// A folder belongs to one session.
type folder struct {
	all *folders
	dir string
	// user is its owner if the host runs as root, else 0.
	user  int
	users int
	last  time.Time
	// files is locked while files are copied in or out.
	files sync.Mutex
}

func newFolders(parent string) *folders {
	if parent == "" {
		parent = os.TempDir()
	}
	return &folders{parent: parent, byKey: map[string]*folder{}}
}

// acquireFolder returns a session's folder.
func (a *folders) acquireFolder(app string, origin model.Origin) (*folder, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", app, origin.UserID, origin.SessionID))
	key := hex.EncodeToString(sum[:16])
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.createBase(); err != nil {
		return nil, fmt.Errorf("creating the folder for sessions: %w", err)
	}
	a.removeIdle()
	f := a.byKey[key]
	if f == nil {
		if len(a.byKey) >= maxFolders && !a.removeOldest() {
			return nil, fmt.Errorf("%d sessions run programs, which is the limit; try again later", maxFolders)
		}
		f = &folder{all: a, dir: filepath.Join(a.base, key)}
		if os.Geteuid() == 0 {
			f.user = firstUser + int(binary.BigEndian.Uint32(sum[16:])%userCount)
		}
		if err := f.createFolder(f.dir); err != nil {
			return nil, err
		}
		a.byKey[key] = f
	}
	f.users++
	f.last = time.Now()
	return f, nil
}

func (f *folder) releaseFolder() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.users--
	f.last = time.Now()
}

// removeIdle deletes folders without use. The caller holds the lock.
func (a *folders) removeIdle() {
	for key, f := range a.byKey {
		if f.users == 0 && time.Since(f.last) > maxIdle {
			a.removeFolder(key)
		}
	}
}

// removeOldest deletes the folder that is unused for the longest time. It returns false if all
// are in use. The caller holds the lock.
func (a *folders) removeOldest() bool {
	oldest := ""
	for key, f := range a.byKey {
		if f.users == 0 && (oldest == "" || f.last.Before(a.byKey[oldest].last)) {
			oldest = key
		}
	}
	if oldest != "" {
		a.removeFolder(oldest)
	}
	return oldest != ""
}

// removeFolder deletes a folder without waiting: it can have any number of files. The caller
// holds the lock.
func (a *folders) removeFolder(key string) {
	f := a.byKey[key]
	delete(a.byKey, key)
	dir := filepath.Join(a.base, "old-"+rand.Text()) // the session may get a new one
	if err := os.Rename(f.dir, dir); err != nil {
		return // it is deleted with the base
	}
	a.removing.Go(func() {
		defer safe.Recover(func(*safe.Panic) {})
		_ = removeTree(dir) // the rest is deleted with the base
	})
}

const basePattern = "agenthost-work-"

// createBase creates the folder for all sessions, and deletes the ones that dead processes left.
func (a *folders) createBase() error {
	if a.base != "" {
		return nil
	}
	base, err := os.MkdirTemp(a.parent, basePattern)
	if err != nil {
		return err
	}
	// Sandbox users enter it, but cannot list it.
	if err := errors.Join(os.Chmod(base, 0o711), lockFolder(base)); err != nil {
		return err
	}
	a.base = base
	old, _ := filepath.Glob(filepath.Join(a.parent, basePattern+"*"))
	for _, dir := range old {
		if dir != base && isAbandoned(dir) {
			_ = removeTree(dir)
		}
	}
	return nil
}

// createFolder creates a folder that only the session's programs can enter.
func (f *folder) createFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if f.user == 0 {
		return nil
	}
	return os.Lchown(dir, f.user, f.user)
}

// Close deletes all folders.
func (a *folders) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base == "" {
		return nil
	}
	base := a.base
	a.base, a.byKey = "", map[string]*folder{}
	a.removing.Wait()
	return removeTree(base)
}
