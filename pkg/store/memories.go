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

// Memories stores content for later sessions of the same user. Each method
// works on one user of one app. Nothing is added automatically: callers add
// sessions or events. Memories of a session stay when the session is deleted,
// until they are deleted here. It is safe for concurrent use.
type Memories struct {
	backend memoryBackend
	clock   func() time.Time
	newID   func() string
	// close closes a separate backend; the session backend is not closed.
	close func() error
}

// defaultFound is the default limit of a search.
const defaultFound = 10

// openMemories opens the memory store: the session database, unless the options
// name another one.
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

// AddSession stores the memories of a session and replaces its previous ones.
// It ignores rewound events.
func (m *Memories) AddSession(ctx context.Context, sess *session.Session) error {
	if err := checkSession(sess.Key); err != nil {
		return err
	}
	return m.writeBatch(ctx, memoryBatch{key: sess.Key, prune: true, replace: true}, session.MemoriesOf(session.WithoutRewound(sess.Events())))
}

// AddEvents stores memories of events that are not stored yet. They belong to
// the key's session; without a session id they belong to none.
func (m *Memories) AddEvents(ctx context.Context, key session.Key, events []*session.Event) error {
	if err := checkOwner(key.App, key.User); err != nil {
		return err
	}
	if err := checkText("session id", key.ID, maxID); err != nil {
		return err
	}
	return m.writeBatch(ctx, memoryBatch{key: key}, session.MemoriesOf(events))
}

// Add stores memories without a session. It generates missing ids and times; a
// memory with an existing id replaces the stored one. A memory must have text.
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

// writeBatch converts memories to records, and writes them.
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

// completeRecord sets a missing id and time of a memory, and converts it to a
// record.
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

// newMemoryRecord converts a complete memory to a record.
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

// Delete deletes the memories of a session.
func (m *Memories) Delete(ctx context.Context, key session.Key) error {
	if err := checkSession(key); err != nil {
		return err
	}
	return m.writeBatch(ctx, memoryBatch{key: key, prune: true}, nil)
}

// DeleteAll deletes all memories of a user in an app.
func (m *Memories) DeleteAll(ctx context.Context, app, user string) error {
	if err := checkOwner(app, user); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.backend.deleteUser(ctx, userKey{app, user})
}

// A MemoryQuery is the input of a search.
type MemoryQuery struct {
	Text string
	// Limit is the maximum number of results; 0 means 10.
	Limit int
	// NotSession excludes the memories of this session; empty excludes none.
	NotSession string
}

// Search finds the memories that contain a word of the query, or for scripts
// without spaces a pair of its characters. Accents and case are ignored.
// Memories with more of the words and with rarer words rank first; later ones
// win ties. Words in more than half of a user's memories (from 20 memories on)
// or in more than 1000 of them count only if the query has no others. A query
// without words finds nothing.
func (m *Memories) Search(ctx context.Context, app, user string, q MemoryQuery) ([]*session.Memory, error) {
	if err := checkOwner(app, user); err != nil {
		return nil, err
	}
	if q.Limit < 0 {
		return nil, fmt.Errorf("limit must not be negative, got %d: %w", q.Limit, session.ErrInvalid)
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

// termCounts holds the number of memories of a user, and of those that contain
// each term, counted up to manyMemories+1.
type termCounts struct {
	total  int
	byTerm map[string]int
}

// From fewMemories on, a word in half of the memories is common. A word in more
// than manyMemories is always common, which bounds the cost of a search.
// at is bounded.
const (
	fewMemories  = 20
	manyMemories = 1000
)

// A termWeight is the weight of a term in the ranking.
type termWeight struct {
	term   string
	points int64
}

// rankTerms returns the weights of the useful terms: rarer terms weigh more.
// Weights are integers, so that sums are the same on every engine.
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

// A memoryBackend stores the rows of memories. Terms and weights are computed
// by its caller. It is safe for concurrent use.
type memoryBackend interface {
	// putMemories writes records in one durable transaction.
	putMemories(ctx context.Context, b *memoryBatch) error
	// deleteUser deletes all records of a user.
	deleteUser(ctx context.Context, who userKey) error
	// countTerms counts the records of a user, and those that contain each
	// term.
	countTerms(ctx context.Context, who userKey, terms []string) (termCounts, error)
	// searchMemories returns the records with the highest total weight; later
	// ones, by time and then by insertion, win ties.
	searchMemories(ctx context.Context, s *memorySearch) ([]*session.Memory, error)
}

// A memoryBatch holds records of one session, or of none, with distinct ids.
type memoryBatch struct {
	key     session.Key
	records []*memoryRecord
	// replace overwrites a record with the same id and another text; otherwise
	// the stored one stays.
	replace bool
	// prune deletes the session's other records.
	prune bool
}

func (b *memoryBatch) userKey() userKey { return userKey{b.key.App, b.key.User} }

// diffExisting compares the batch with the stored texts by id, and returns the
// records to write and the ids to delete first.
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

// A memoryRecord is a memory as JSON with its search terms.
type memoryRecord struct {
	id    string
	time  int64
	text  string
	terms []string
}

// A memorySearch is the input of searchMemories.
type memorySearch struct {
	owner   userKey
	weights []termWeight
	not     string // excluded session; empty excludes none
	limit   int
}

func decodeMemory(text string) (*session.Memory, error) {
	m := &session.Memory{}
	if err := m.UnmarshalJSON([]byte(text)); err != nil {
		return nil, newDamagedError(err, "reading a memory")
	}
	return m, nil
}
