package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store/backend"
)

// A search finds memories by words, the same ones on each engine. The databases have full-text indexes
// of their own, and none agrees with another on what a word is, how to fold case and accents, or how to
// rank. So the terms are rows here, and an engine only counts and adds:
//
//	write    text ──indexTerms──▶ terms, a row each next to the memory, in one transaction
//	search   query ──queryTerms──▶ terms ──CountTerms──▶ how many memories have each
//	                rankTerms: an integer weight for each term, rarer ones weigh more
//	                SearchMemories: the memories with the highest sum of weights
//
// Weights are integers, because sums of floats depend on their order, and so on the engine's plan.
// A term in more than ManyMemories of a user's memories is not searched unless the query has no rarer
// one, so that the cost of a search does not grow with the user's memories.
//
// Invariants:
//   - a query's terms are a subset of the index terms of the same text, so that a memory is found by
//     its own text (memory_terms_test.go);
//   - a memory and its terms are written together, and a memory that replaces another one replaces its
//     terms;
//   - all rows belong to one user in one app, and no query crosses that.

// Memories stores content for the same user's later sessions. Each method works on one user in one
// app. Nothing is added automatically: callers add sessions or events. A session's memories stay
// when it is deleted, until they are deleted here. It is safe for concurrent use.
type Memories struct {
	backend MemoryBackend
	// service replaces the backend and the search by words; nil without one.
	service MemoryService
	clock   func() time.Time
	newID   func() string
}

// A MemoryService stores and finds memories by its own means, outside the host. It may merge
// memories, keep more than an event's text, and find by meaning. Its input is valid: owners are not
// empty, and partial events and those that were rewound are left out. It is safe for concurrent
// use.
type MemoryService interface {
	MemoryContent
	// DeleteSession deletes a session's memories, or fails if the service cannot tell them from
	// others.
	DeleteSession(ctx context.Context, key session.Key) error
	// DeleteUser deletes all memories for a user.
	DeleteUser(ctx context.Context, who UserKey) error
	// Ping checks that the service can be read.
	Ping(ctx context.Context) error
	// Close closes the service.
	Close() error
}

// MemoryContent adds and finds memories in a [MemoryService].
type MemoryContent interface {
	// AddEvents adds a session's events, which may have been added before; an empty session ID
	// belongs to none.
	AddEvents(ctx context.Context, key session.Key, events []*session.Event) error
	// AddMemories adds memories without a session, which have text.
	AddMemories(ctx context.Context, who UserKey, memories []*session.Memory) error
	// FindMemories returns memories for a query that is not empty, the best first. The limit
	// is at least 1.
	FindMemories(ctx context.Context, who UserKey, q MemoryQuery) ([]*session.Memory, error)
}

// defaultFound is the default limit for a search.
const defaultFound = 10

// AddSession stores a session's memories and replaces its previous ones. It ignores rewound events.
func (m *Memories) AddSession(ctx context.Context, sess *session.Session) error {
	if err := codec.CheckSession(sess.Key); err != nil {
		return err
	}
	events := session.WithoutRewound(sess.Events())
	if m.service != nil {
		return m.addToService(ctx, sess.Key, events)
	}
	return m.writeBatch(ctx, MemoryBatch{Key: sess.Key, Prune: true, Replace: true}, session.MemoriesOf(events))
}

func (m *Memories) addToService(ctx context.Context, key session.Key, events []*session.Event) error {
	complete := slices.DeleteFunc(slices.Clone(events), func(ev *session.Event) bool { return ev.Partial || ev.Content == nil })
	if len(complete) == 0 {
		return nil
	}
	return m.service.AddEvents(ctx, key, complete)
}

// AddEvents stores memories for events that are not stored yet. They belong to the key's session;
// without a session id they belong to none.
func (m *Memories) AddEvents(ctx context.Context, key session.Key, events []*session.Event) error {
	if err := codec.CheckOwner(key.App, key.User); err != nil {
		return err
	}
	if err := codec.CheckText("session id", key.ID, codec.MaxID); err != nil {
		return err
	}
	if m.service != nil {
		return m.addToService(ctx, key, events)
	}
	return m.writeBatch(ctx, MemoryBatch{Key: key}, session.MemoriesOf(events))
}

// Add stores memories without a session. It generates missing ids and times; a
// memory with an existing id replaces the stored one. A memory must have text.
func (m *Memories) Add(ctx context.Context, app, user string, memories ...*session.Memory) error {
	if err := codec.CheckOwner(app, user); err != nil {
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
	if m.service != nil {
		return m.service.AddMemories(ctx, UserKey{app, user}, given)
	}
	return m.writeBatch(ctx, MemoryBatch{Key: session.Key{App: app, User: user}, Replace: true}, given)
}

// writeBatch sets missing ids and times, converts the memories to records, and writes them.
func (m *Memories) writeBatch(ctx context.Context, b MemoryBatch, memories []*session.Memory) error {
	at := map[string]int{}
	for _, mem := range memories {
		if mem.ID == "" {
			mem.ID = m.newID()
		}
		if mem.Timestamp.IsZero() {
			mem.Timestamp = m.clock()
		}
		mem.Timestamp = mem.Timestamp.UTC().Truncate(time.Microsecond)
		rec, err := NewMemoryRecord(mem)
		if err != nil {
			return err
		}
		if i, ok := at[rec.ID]; ok {
			b.Records[i] = rec
			continue
		}
		at[rec.ID] = len(b.Records)
		b.Records = append(b.Records, rec)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(b.Records) == 0 && !b.Prune {
		return nil
	}
	return m.backend.PutMemories(ctx, &b)
}

// NewMemoryRecord converts a complete memory to a record.
func NewMemoryRecord(mem *session.Memory) (*MemoryRecord, error) {
	if err := codec.CheckText("memory id", mem.ID, codec.MaxID); err != nil {
		return nil, err
	}
	text, err := mem.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	return &MemoryRecord{ID: mem.ID, Time: mem.Timestamp.UnixMicro(), Text: string(text), Terms: indexTerms(mem.Text())}, nil
}

// Delete deletes a session's memories.
func (m *Memories) Delete(ctx context.Context, key session.Key) error {
	if err := codec.CheckSession(key); err != nil {
		return err
	}
	if m.service != nil {
		return m.service.DeleteSession(ctx, key)
	}
	return m.writeBatch(ctx, MemoryBatch{Key: key, Prune: true}, nil)
}

// DeleteAll deletes all of a user's memories in an app.
func (m *Memories) DeleteAll(ctx context.Context, app, user string) error {
	if err := codec.CheckOwner(app, user); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.service != nil {
		return m.service.DeleteUser(ctx, UserKey{app, user})
	}
	return m.backend.DeleteUser(ctx, UserKey{app, user})
}

// Ping checks that a [MemoryService] can be read. Without one it does nothing: the memories are
// in a database.
func (m *Memories) Ping(ctx context.Context) error {
	if m.service == nil {
		return nil
	}
	return m.service.Ping(ctx)
}

// A ProfileService is a [MemoryService] that keeps user profiles: structured data that it extracts
// from events.
type ProfileService interface {
	// LoadProfiles returns a user's profiles by schema name.
	LoadProfiles(ctx context.Context, who UserKey) (map[string]any, error)
}

// LoadProfiles returns a user's profiles; see [ProfileService]. Other stores have none, which is an
// error.
func (m *Memories) LoadProfiles(ctx context.Context, app, user string) (map[string]any, error) {
	if err := codec.CheckOwner(app, user); err != nil {
		return nil, err
	}
	s, ok := m.service.(ProfileService)
	if !ok {
		return nil, fmt.Errorf("the memory store has no profiles: they require the Memory Bank of Vertex AI (--memory agentengine://ENGINE): %w", session.ErrInvalid)
	}
	return s.LoadProfiles(ctx, UserKey{app, user})
}

// closeAll closes the backend and the service.
func (m *Memories) closeAll() error {
	err := m.backend.Close()
	if m.service != nil {
		err = errors.Join(err, m.service.Close())
	}
	return err
}

// A MemoryQuery is a search's input.
type MemoryQuery struct {
	Text string
	// Limit is how many results to return at most; 0 means 10.
	Limit int
	// NotSession excludes this session's memories; empty excludes none. A [MemoryService] ignores
	// it if it merges memories from sessions.
	NotSession string
}

// Search finds memories; a [MemoryService] does so by its own means. Others find those that contain
// a query word, or for scripts without spaces a pair of its characters. Accents and case are
// ignored. Memories with more words and with rarer words rank first; later ones win ties. Words in
// more than half of a user's memories (from 20 memories on) or in more than 1000 of them count only
// if the query has no others. A query without words finds nothing.
func (m *Memories) Search(ctx context.Context, app, user string, q MemoryQuery) ([]*session.Memory, error) {
	if err := codec.CheckOwner(app, user); err != nil {
		return nil, err
	}
	if q.Limit < 0 {
		return nil, fmt.Errorf("limit must not be negative, got %d: %w", q.Limit, session.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	who := UserKey{app, user}
	if m.service != nil {
		if strings.TrimSpace(q.Text) == "" {
			return nil, nil
		}
		q.Limit = cmp.Or(q.Limit, defaultFound)
		return m.service.FindMemories(ctx, who, q)
	}
	terms := queryTerms(q.Text)
	if len(terms) == 0 {
		return nil, nil
	}
	t, err := m.backend.CountTerms(ctx, who, terms)
	if err != nil {
		return nil, err
	}
	s := &MemorySearch{Owner: who, Weights: t.rankTerms(terms), NotSession: q.NotSession, Limit: cmp.Or(q.Limit, defaultFound)}
	if len(s.Weights) == 0 {
		return nil, nil
	}
	return m.backend.SearchMemories(ctx, s)
}

// TermCounts counts a user's memories, and those that contain each term, counted up to
// ManyMemories+1.
type TermCounts struct {
	Total  int
	ByTerm map[string]int
}

// From fewMemories on, a word in half the memories is common. A word in more than ManyMemories is
// always common, which bounds a search's cost.
const (
	fewMemories  = 20
	ManyMemories = 1000
)

// A TermWeight is a term's weight in the ranking.
type TermWeight struct {
	Term   string
	Points int64
}

// rankTerms returns the useful terms' weights: rarer terms weigh more. Weights are integers, so
// that sums are the same on every engine.
func (t TermCounts) rankTerms(terms []string) []TermWeight {
	var rare, common []TermWeight
	for _, term := range terms {
		n := t.ByTerm[term]
		if n == 0 {
			continue
		}
		rarity := math.Log1p((float64(t.Total-n) + 0.5) / (float64(n) + 0.5))
		w := TermWeight{term, max(1, int64(math.Round(rarity*1000)))}
		if t.Total >= fewMemories && 2*n > t.Total || n > ManyMemories {
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

// A MemoryBackend stores memory rows. Terms and weights are computed by its caller. It is safe for
// concurrent use.
type MemoryBackend interface {
	// PutMemories writes records in one durable transaction.
	PutMemories(ctx context.Context, b *MemoryBatch) error
	// DeleteUser deletes all of a user's records.
	DeleteUser(ctx context.Context, who UserKey) error
	// CountTerms counts a user's records, and those that contain each term.
	CountTerms(ctx context.Context, who UserKey, terms []string) (TermCounts, error)
	// SearchMemories returns the records with the highest total weight; later
	// ones, by time and then by insertion, win ties.
	SearchMemories(ctx context.Context, s *MemorySearch) ([]*session.Memory, error)
	// Close closes the backend, unless it shares the sessions' engine.
	Close() error
}

// A UserKey identifies a user in an app.
type UserKey struct{ App, User string }

// A MemoryBatch holds records from one session, or from none, with distinct ids.
type MemoryBatch struct {
	Key     session.Key
	Records []*MemoryRecord
	// Replace overwrites a record with the same id and another text; otherwise
	// the stored one stays.
	Replace bool
	// Prune deletes the session's other records.
	Prune bool
}

// UserKey returns the batch's user.
func (b *MemoryBatch) UserKey() UserKey { return UserKey{b.Key.App, b.Key.User} }

// DiffExisting compares the batch with the stored texts by id, and returns the
// records to write and the ids to delete first.
func (b *MemoryBatch) DiffExisting(there map[string]string) (write []*MemoryRecord, remove []string) {
	given := map[string]bool{}
	for _, r := range b.Records {
		given[r.ID] = true
		old, ok := there[r.ID]
		switch {
		case !ok:
			write = append(write, r)
		case b.Replace && old != r.Text:
			write, remove = append(write, r), append(remove, r.ID)
		}
	}
	for id := range there {
		if b.Prune && !given[id] {
			remove = append(remove, id)
		}
	}
	slices.Sort(remove)
	return write, remove
}

// A MemoryRecord is a memory as JSON with its search terms.
type MemoryRecord struct {
	ID    string
	Time  int64
	Text  string
	Terms []string
}

// A MemorySearch is the input for SearchMemories.
type MemorySearch struct {
	Owner      UserKey
	Weights    []TermWeight
	NotSession string // excluded session; empty excludes none
	Limit      int
}

// DecodeMemory decodes a record's text.
func DecodeMemory(text string) (*session.Memory, error) {
	m := &session.Memory{}
	if err := m.UnmarshalJSON([]byte(text)); err != nil {
		return nil, backend.NewDamagedError(err, "reading a memory")
	}
	return m, nil
}
