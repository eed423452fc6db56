package server

import (
	"bytes"
	"errors"
	"hash/maphash"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"agenthost/internal/safe"
)

const (
	// defaultAnswers bounds the large answers that are under way.
	defaultAnswers = 256 << 20
	// userShare is the part of them that one user may have, one in so many.
	userShare = 4
	// muchMemory is from how many bytes of answers on memory is given back to
	// the system when they have all been read.
	muchMemory = 64 << 20
	// quietTime is how long after the last large answer that happens.
	quietTime = time.Second
)

var errAnswersFull = errors.New("too many large answers are being read: retry later")

// answers bounds the memory of large answers. Few are made at a time, since what
// they are made of takes more memory than they do; those that are the same share
// one text; and the texts that clients have yet to read have a limit on the whole
// and for each user. Many goroutines may use it.
type answers struct {
	max    int64
	making chan struct{}
	seed   maphash.Seed

	mu    sync.Mutex
	texts map[uint64]*answerText
	users map[string]int64
	bytes int64
	peak  int64 // since memory was given back
}

// An answerText is a text that one client or more read.
type answerText struct {
	text    []byte
	readers int
	user    string // whose share it counts for
}

func newAnswers(most int64) *answers {
	if most == 0 {
		most = defaultAnswers
	}
	return &answers{
		max: most, making: make(chan struct{}, max(4, runtime.GOMAXPROCS(0))), seed: maphash.MakeSeed(),
		texts: map[uint64]*answerText{}, users: map[string]int64{},
	}
}

// check returns an error when no large answer of the user would be sent. A
// request that writes asks before it does.
func (a *answers) check(user string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes >= a.max || a.users[user] >= a.max/userShare {
		return errAnswersFull
	}
	return nil
}

// send makes a JSON answer for a user and writes it. An answer that reports what
// was written has to be sent whatever the limit.
func (a *answers) send(w http.ResponseWriter, r *http.Request, q answerRequest) error {
	text, release, err := a.make(r, q)
	if err != nil {
		return err
	}
	defer release()
	writeText(w, http.StatusOK, text)
	return nil
}

// An answerRequest is an answer that is yet to be made.
type answerRequest struct {
	user string
	must bool
	make func() ([]byte, error)
}

func (a *answers) make(r *http.Request, q answerRequest) (text []byte, release func(), err error) {
	select {
	case a.making <- struct{}{}:
		defer func() { <-a.making }()
	case <-r.Context().Done():
		return nil, nil, r.Context().Err()
	}
	if text, err = q.make(); err != nil || len(text) <= maxPiece {
		return text, func() {}, err
	}
	return a.hold(text, q)
}

// hold counts a text, or finds one that is the same.
func (a *answers) hold(text []byte, q answerRequest) ([]byte, func(), error) {
	sum := maphash.Bytes(a.seed, text)
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.texts[sum]
	if t != nil && !bytes.Equal(t.text, text) {
		return text, func() {}, nil // never seen; not counted
	}
	if t == nil {
		n := int64(len(text))
		total, own := a.bytes, a.users[q.user]
		if !q.must && (total > 0 && total+n > a.max || own > 0 && own+n > a.max/userShare) {
			return nil, nil, errAnswersFull
		}
		t = &answerText{text: bytes.Clone(text), user: q.user} // without what it grew into
		a.texts[sum] = t
		a.bytes, a.users[q.user] = total+n, own+n
		a.peak = max(a.peak, a.bytes)
	}
	t.readers++
	return t.text, sync.OnceFunc(func() { a.release(sum, t) }), nil
}

func (a *answers) release(sum uint64, t *answerText) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.readers--; t.readers > 0 {
		return
	}
	n := int64(len(t.text))
	delete(a.texts, sum)
	a.bytes -= n
	if a.users[t.user] -= n; a.users[t.user] == 0 {
		delete(a.users, t.user)
	}
	if a.bytes == 0 && a.peak >= muchMemory {
		time.AfterFunc(quietTime, func() {
			defer safe.Recover(func(*safe.Panic) {}) // memory is returned later, then
			a.giveBack()
		})
	}
}

// giveBack returns memory to the system: the collector does so by itself only
// after minutes when nothing else runs.
func (a *answers) giveBack() {
	a.mu.Lock()
	quiet := a.bytes == 0 && a.peak >= muchMemory
	if quiet {
		a.peak = 0
	}
	a.mu.Unlock()
	if quiet {
		debug.FreeOSMemory()
	}
}
