package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A presence says to all who have a database file open that this store lives: a
// lock on one byte of a file beside it, which ends with the process, however
// that ends. So nobody waits for the lease of a host that was killed.
type livenessLock struct{ file *os.File }

// ownerHexDigits are the hexadecimal digits at the end of an owner's name. They
// are the place of its byte.
const ownerHexDigits = 12

// acquireLivenessLock begins the presence of an owner.
func acquireLivenessLock(path, owner string) (*livenessLock, error) {
	f, err := os.OpenFile(path+".hosts", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the file that tells who is there: %w", err)
	}
	place, ok := ownerOffset(owner)
	if ok {
		err = lockByte(f, place)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s, which tells who is there: %w", f.Name(), err)
	}
	return &livenessLock{f}, nil
}

// isOwnerDead says that an owner is dead for sure.
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
	return place, err == nil && len(digits) == ownerHexDigits
}
