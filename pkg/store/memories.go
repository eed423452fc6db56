package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// Memories keeps what was said for later sessions of the same user. Whatever it
// is asked, it answers from one app's memories of one user. Nothing gets there
// by itself: somebody adds a session, or a part of one. What a session left
// stays when the session is deleted, until it is deleted here. Many goroutines
// may use it.
type Memories struct {
	backend memoryBackend
	clock   func() time.Time
	newID   func() string
	// close ends a backend of its own, and leaves that of the sessions to them.
	close func() error
}

// defaultFound is how many memories a search finds at most unless it says more.
const defaultFound = 10

// openMemories opens the memories that belong to the sessions of a URL: in
// their database, unless another place is asked for.
func openMemories(ctx context.Context, sessions string, b backend, o *Options) (*Memories, error) {
	m := &Memories{clock: o.Clock, newID: o.NewID, close: func() error { return nil }}
	var own func() error
	if o.Memory != "" && o.Memory != sessions {
		s, rest, err := findScheme(o.Memory)
		if err != nil {
			return nil, err
		}
		if b, _, err = s.open(ctx, rest, o); err != nil {
			return nil, err
		}
		own = b.close
	}
	switch b := b.(type) {
	case *sqlBackend:
		m.backend = sqlMemories{b}
		if own != nil {
			m.close = own
		}
	default:
		mem := newMemMemories()
		m.backend, m.close = mem, mem.close
	}
	return m, nil
}

// AddSession remembers what was said in a session, in the place of what was
// remembered of it before. What a rewind took back is not remembered.
func (m *Memories) AddSession(ctx context.Context, sess *session.Session) error {
	if err := checkSession(sess.Key); err != nil {
		return err
	}
	return m.writeBatch(ctx, memoryBatch{key: sess.Key, prune: true, replace: true}, session.MemoriesOf(session.WithoutRewound(sess.Events())))
}

// AddEvents remembers what was said in these events, but for those that are
// remembered already. They belong to the key's session; without a session id
// they belong to none.
func (m *Memories) AddEvents(ctx context.Context, key session.Key, events []*session.Event) error {
	if err := checkOwner(key.App, key.User); err != nil {
		return err
	}
	if err := checkText("session id", key.ID, maxID); err != nil {
		return err
	}
	return m.writeBatch(ctx, memoryBatch{key: key}, session.MemoriesOf(events))
}

// Add keeps memories that come from no session. One without id gets a new one,
// one without time the clock's; one whose id is there already takes the place
// of the other. A memory needs a text.
func (m *Memories) Add(ctx context.Context, app, user string, memories ...*session.Memory) error {
	if err := checkOwner(app, user); err != nil {
		return err
	}
	given := make([]*session.Memory, len(memories))
	for i, mem := range memories {
		if mem.Text() == "" {
			return fmt.Errorf("memory %q has no text: %w", mem.ID, session.ErrInvalid)
		}
		c := *mem
		given[i] = &c
	}
	return m.writeBatch(ctx, memoryBatch{key: session.Key{App: app, User: user}, replace: true}, given)
}

// writeBatch makes records of memories, and writes them.
func (m *Memories) writeBatch(ctx context.Context, b memoryBatch, memories []*session.Memory) error {
	at := map[string]int{}
	for _, mem := range memories {
		rec, err := m.completeRecord(mem)
		if err != nil {
			return err
		}
		if i, ok := at[rec.id]; ok {
			b.records[i] = rec
			continue
		}
		at[rec.id] = len(b.records)
		b.records = append(b.records, rec)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(b.records) == 0 && !b.prune {
		return nil
	}
	return m.backend.putMemories(ctx, &b)
}

// completeRecord takes over a memory, which it may complete.
func (m *Memories) completeRecord(mem *session.Memory) (*memoryRecord, error) {
	if mem.ID == "" {
		mem.ID = m.newID()
	}
	if mem.Timestamp.IsZero() {
		mem.Timestamp = m.clock()
	}
	mem.Timestamp = mem.Timestamp.UTC().Truncate(time.Microsecond)
	return newMemoryRecord(mem)
}

// newMemoryRecord makes the record of a memory that is complete.
func newMemoryRecord(mem *session.Memory) (*memoryRecord, error) {
	if err := checkText("memory id", mem.ID, maxID); err != nil {
		return nil, err
	}
	text, err := mem.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	return &memoryRecord{id: mem.ID, time: mem.Timestamp.UnixMicro(), text: string(text), terms: indexTerms(mem.Text())}, nil
}

// Delete forgets what a session left.
func (m *Memories) Delete(ctx context.Context, key session.Key) error {
	if err := checkSession(key); err != nil {
		return err
	}
	return m.writeBatch(ctx, memoryBatch{key: key, prune: true}, nil)
}

// DeleteAll forgets all that an app knows of a user.
func (m *Memories) DeleteAll(ctx context.Context, app, user string) error {
	if err := checkOwner(app, user); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.backend.deleteUser(ctx, userKey{app, user})
}

// A MemoryQuery is what a search looks for.
type MemoryQuery struct {
	Text string
	// Limit is how many are found at most; 0 is 10.
	Limit int
	// NotSession leaves out what this session left; empty leaves nothing out.
	NotSession string
}

// Search finds the memories that have a word of the query, or for scripts
// without spaces a pair of its characters; accents and case do not count. First
// come those with more of the words, and with rarer ones; of equal ones the
// later. Words that are in more than half of a user's memories, once there are
// some, or in more than 1000 of them, are looked for only when there are no
// others. A query without words finds nothing.
func (m *Memories) Search(ctx context.Context, app, user string, q MemoryQuery) ([]*session.Memory, error) {
	if err := checkOwner(app, user); err != nil {
		return nil, err
	}
	if q.Limit < 0 {
		return nil, fmt.Errorf("limit %d is below zero: %w", q.Limit, session.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	terms := queryTerms(q.Text)
	if len(terms) == 0 {
		return nil, nil
	}
	who := userKey{app, user}
	t, err := m.backend.countTerms(ctx, who, terms)
	if err != nil {
		return nil, err
	}
	s := &memorySearch{owner: who, weights: t.rankTerms(terms), not: q.NotSession, limit: cmp.Or(q.Limit, defaultFound)}
	if len(s.weights) == 0 {
		return nil, nil
	}
	return m.backend.searchMemories(ctx, s)
}

// A tally says how many memories a user has, and how many of them have a term,
// counted up to one more than manyMemories.
type termCounts struct {
	total  int
	byTerm map[string]int
}

// From fewMemories on, it says something that a word is in half of them. A word
// in more than manyMemories is common in any case, so that what a search looks
// at is bounded.
const (
	fewMemories  = 20
	manyMemories = 1000
)

// A weight is what a term counts for.
type termWeight struct {
	term   string
	points int64
}

// rankTerms are those of the terms that are worth looking for: the rarer, the
// more. They are whole numbers, so that sums are the same on every engine.
func (t termCounts) rankTerms(terms []string) []termWeight {
	var rare, common []termWeight
	for _, term := range terms {
		n := t.byTerm[term]
		if n == 0 {
			continue
		}
		rarity := math.Log1p((float64(t.total-n) + 0.5) / (float64(n) + 0.5))
		w := termWeight{term, max(1, int64(math.Round(rarity*1000)))}
		if t.total >= fewMemories && 2*n > t.total || n > manyMemories {
			common = append(common, w)
		} else {
			rare = append(rare, w)
		}
	}
	if len(rare) == 0 {
		return common
	}
	return rare
}

// A memoryBackend keeps the rows of memories. It knows no rule: terms and
// weights are given to it. Many goroutines use it.
type memoryBackend interface {
	// putMemories writes records in one step that is durable when it returns.
	putMemories(ctx context.Context, b *memoryBatch) error
	// deleteUser removes all records of a user.
	deleteUser(ctx context.Context, who userKey) error
	// countTerms counts the records of a user, and those that have each term.
	countTerms(ctx context.Context, who userKey, terms []string) (termCounts, error)
	// searchMemories returns the records with the most points; of equal ones the later,
	// by their time and then by when they were added.
	searchMemories(ctx context.Context, s *memorySearch) ([]*session.Memory, error)
}

// A batch is records of one session, or of none, by distinct ids.
type memoryBatch struct {
	key     session.Key
	records []*memoryRecord
	// replace writes over a record of the same id that says something else;
	// without it that one stays.
	replace bool
	// prune removes the session's other records.
	prune bool
}

func (b *memoryBatch) userKey() userKey { return userKey{b.key.App, b.key.User} }

// diffExisting compares the batch with what is there, by id: which of its records
// are to be written, and which ids removed before.
func (b *memoryBatch) diffExisting(there map[string]string) (write []*memoryRecord, remove []string) {
	given := map[string]bool{}
	for _, r := range b.records {
		given[r.id] = true
		old, ok := there[r.id]
		switch {
		case !ok:
			write = append(write, r)
		case b.replace && old != r.text:
			write, remove = append(write, r), append(remove, r.id)
		}
	}
	for id := range there {
		if b.prune && !given[id] {
			remove = append(remove, id)
		}
	}
	slices.Sort(remove)
	return write, remove
}

// A memoryRecord is a memory as JSON, and what it is found by.
type memoryRecord struct {
	id    string
	time  int64
	text  string
	terms []string
}

// A memorySearch is what best looks for.
type memorySearch struct {
	owner   userKey
	weights []termWeight
	not     string // a session that is left out; empty is none
	limit   int
}

func decodeMemory(text string) (*session.Memory, error) {
	m := &session.Memory{}
	if err := m.UnmarshalJSON([]byte(text)); err != nil {
		return nil, newDamagedError(err, "reading a memory")
	}
	return m, nil
}
