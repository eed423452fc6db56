package sqlstore

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"agenthost/pkg/store"
)

// A livenessLock shows other processes that have the same database file open
// that this store is alive: a lock on one byte of a file next to the database,
// which the operating system releases when the process ends. So other processes
// take over the leases of a killed host without waiting for their expiry.
type livenessLock struct{ file *os.File }

// acquireLivenessLock locks the byte of an owner.
func acquireLivenessLock(path, owner string) (*livenessLock, error) {
	f, err := os.OpenFile(path+".hosts", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the liveness lock file: %w", err)
	}
	place, ok := ownerOffset(owner)
	if ok {
		err = lockByte(f, place)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the liveness lock file %s: %w", f.Name(), err)
	}
	return &livenessLock{f}, nil
}

// isOwnerDead reports whether the process of an owner has certainly ended.
func (p *livenessLock) isOwnerDead(owner string) bool {
	place, ok := ownerOffset(owner)
	return p != nil && ok && isUnlocked(p.file, place)
}

func (p *livenessLock) close() error {
	if p == nil {
		return nil
	}
	return p.file.Close()
}

func ownerOffset(owner string) (int64, bool) {
	digits := owner[strings.LastIndex(owner, "/")+1:]
	place, err := strconv.ParseInt(digits, 16, 64)
	return place, err == nil && len(digits) == store.OwnerDigits
}
