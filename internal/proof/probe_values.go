package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// throughStore appends events to a session, closes the store where it is
// durable, and reads the session again.
func (s *site) throughStore(ctx context.Context, events ...*session.Event) (*session.Session, error) {
	st, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	key := keyOf(0, 0)
	sess, err := st.Sessions.Create(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		if err := st.Sessions.Append(ctx, sess, ev); err != nil {
			return nil, err
		}
	}
	if s.durable() {
		if err := st.Close(); err != nil {
			return nil, err
		}
		if st, err = s.open(ctx); err != nil {
			return nil, err
		}
	}
	return st.Sessions.Get(ctx, key, nil)
}

const sameTime = 40

// sameMoment makes events of one microsecond, whose ids fall while they are
// said, and one whose clock was set back.
func sameMoment() []*session.Event {
	at := time.UnixMicro(1_800_000_000_000_000)
	var events []*session.Event
	for i := range sameTime + 1 {
		ev := said("user", fmt.Sprint(i))
		ev.ID, ev.Timestamp = fmt.Sprintf("event-%02d", sameTime-i), at
		if i == sameTime {
			ev.Timestamp = at.Add(-time.Hour)
		}
		events = append(events, ev)
	}
	return events
}

func misplacedEvents(ctx context.Context, s *site) (int, error) {
	sess, err := s.throughStore(ctx, sameMoment()...)
	if err != nil {
		return 0, err
	}
	return misplaced(sess.Events()), nil
}

// misplacedByTime is what a reader sees who orders by time, and by id in one
// moment.
func misplacedByTime(ctx context.Context, s *site) (int, error) {
	sess, err := s.throughStore(ctx, sameMoment()...)
	if err != nil {
		return 0, err
	}
	events := slices.SortedFunc(slices.Values(sess.Events()), func(a, b *session.Event) int {
		if c := a.Timestamp.Compare(b.Timestamp); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return misplaced(events), nil
}

func misplaced(events []*session.Event) int {
	n := sameTime + 1 - len(events)
	for i, ev := range events {
		if ev.Text() != fmt.Sprint(i) {
			n++
		}
	}
	return n
}

// exactly are numbers that a float64 or a database may change.
func exactly() map[string]any {
	return map[string]any{
		"above": int64(1<<53 + 1), "largest": int64(1<<63 - 1), "smallest": int64(-1 << 63),
		"large": json.Number("123456789012345678901234567890"), "one": 1.0, "tiny": 5e-324, "tenth": 0.1,
		"list": []any{int64(1<<53 + 3), map[string]any{"in": int64(1<<60 + 1)}},
	}
}

// numberEvent has the numbers in every scope of the state, and in a call.
func numberEvent() (*session.Event, error) {
	delta := map[string]any{}
	for k, v := range exactly() {
		delta[k], delta["user:"+k], delta["app:"+k] = v, v, v
	}
	ev := changed(delta)
	const call = `{"id":"numbers","author":"agent","content":{"role":"model","parts":[{"functionCall":{"id":"c","name":"f",
 "args":{"above":9007199254740993,"largest":9223372036854775807,"one":1.0}}}]},"customMetadata":{"above":9007199254740993}}`
	var said session.Event
	if err := json.Unmarshal([]byte(call), &said); err != nil {
		return nil, err
	}
	ev.Content, ev.CustomMetadata = said.Content, said.CustomMetadata
	return ev, nil
}

func changedNumbers(ctx context.Context, s *site) (int, error) {
	state, text, want, err := s.numbers(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for k, v := range exactly() {
		for _, prefix := range []string{"", "user:", "app:"} {
			if !reflect.DeepEqual(state[prefix+k], v) {
				n++
			}
		}
	}
	return n + len(differences("", want, text)), nil
}

// changedByFloat reads what is stored as most programs read JSON.
func changedByFloat(ctx context.Context, s *site) (int, error) {
	state, _, _, err := s.numbers(ctx)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(state)
	if err != nil {
		return 0, err
	}
	var read map[string]any
	if err := json.Unmarshal(text, &read); err != nil {
		return 0, err
	}
	n := 0
	for k, v := range exactly() {
		if !reflect.DeepEqual(read[k], v) {
			n++
		}
	}
	return n, nil
}

// numbers takes the numbers through the store, and returns the state and the
// event as they are read, and the event as it was written.
func (s *site) numbers(ctx context.Context) (state map[string]any, event, want any, err error) {
	ev, err := numberEvent()
	if err != nil {
		return nil, nil, nil, err
	}
	sess, err := s.throughStore(ctx, ev)
	if err != nil {
		return nil, nil, nil, err
	}
	if want, err = tree(ev); err != nil {
		return nil, nil, nil, err
	}
	event, err = tree(sess.Events()[0])
	return sess.State.All(), event, want, err
}

// tree is an event's JSON form with its numbers as they are written.
func tree(ev *session.Event) (any, error) {
	text, err := session.AppendEvent(nil, ev)
	if err != nil {
		return nil, err
	}
	return treeOf(string(text))
}

func treeOf(text string) (any, error) {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

// differences lists the paths at which something that was written is not read.
func differences(at string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		var all []string
		for k, v := range w {
			all = append(all, differences(at+"."+k, v, g[k])...)
		}
		return all
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{at}
		}
		var all []string
		for i, v := range w {
			all = append(all, differences(fmt.Sprintf("%s[%d]", at, i), v, g[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(want, got) {
		return []string{at}
	}
	return nil
}

func lostFields(ctx context.Context, s *site) (int, error) {
	n := 0
	for i, text := range documentedEvents() {
		want, err := treeOf(text)
		if err != nil {
			return 0, fmt.Errorf("event %d: %w", i, err)
		}
		ev := &session.Event{}
		if err := json.Unmarshal([]byte(text), ev); err != nil {
			return 0, fmt.Errorf("event %d: %w", i, err)
		}
		got, err := s.fieldsOf(ctx, ev)
		if err != nil {
			return 0, err
		}
		lost := differences("", want, got)
		if len(lost) > 0 {
			fmt.Fprintln(s.progress, "lost fields:", strings.Join(lost, " "))
		}
		n += len(lost)
	}
	return n, nil
}

// fieldsOf takes an event through a database of its own.
func (s *site) fieldsOf(ctx context.Context, ev *session.Event) (got any, err error) {
	_, err = s.tryOut(ctx, s.place, func(ctx context.Context, s *site) (int, error) {
		sess, err := s.throughStore(ctx, ev)
		if err == nil {
			got, err = tree(sess.Events()[0])
		}
		return 0, err
	})
	return got, err
}

// lostByColumns leaves out what adk-go keeps no column for.
func lostByColumns(context.Context, *site) (int, error) {
	n := 0
	for _, text := range documentedEvents() {
		want, err := treeOf(text)
		if err != nil {
			return 0, err
		}
		got, _ := treeOf(text)
		for _, field := range []string{"finishReason", "avgLogprobs", "logprobsResult", "inputTranscription", "outputTranscription", "modelVersion"} {
			delete(got.(map[string]any), field)
		}
		n += len(differences("", want, got))
	}
	return n, nil
}

// fillAndDelete makes a session with events and state, and lets remove take it
// away.
func (s *site) fillAndDelete(ctx context.Context, remove func(*store.Store, session.Key) error) (left int, err error) {
	st, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	key := keyOf(0, 0)
	sess, err := st.Sessions.Create(ctx, key, map[string]any{"initial": 1})
	for i := 0; i < 10 && err == nil; i++ {
		err = st.Sessions.Append(ctx, sess, changed(map[string]any{"own": i}))
	}
	if err == nil {
		err = remove(st, key)
	}
	if err != nil {
		return 0, err
	}
	rows, err := s.rowsOf(ctx, key)
	if err != nil {
		return 0, err
	}
	return s.again(ctx, st, key, rows)
}

// again makes a session with the same key: nothing may come back.
func (s *site) again(ctx context.Context, st *store.Store, key session.Key, rows int) (int, error) {
	sess, err := st.Sessions.Create(ctx, key, nil)
	if err != nil {
		return 0, err
	}
	return rows + sess.History.Len() + len(sess.State.All()), nil
}

// rowsOf counts what the tables hold of a session. There is no other one.
func (s *site) rowsOf(ctx context.Context, key session.Key) (rows int, err error) {
	if !s.durable() {
		return 0, nil
	}
	db, err := s.raw()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for _, count := range []string{"SELECT count(*) FROM sessions", "SELECT count(*) FROM events", "SELECT count(*) FROM states WHERE session_id = '" + key.ID + "'"} {
		var n int
		if err := db.QueryRowContext(ctx, count).Scan(&n); err != nil {
			return 0, fmt.Errorf("%s: %w", count, err)
		}
		rows += n
	}
	return rows, nil
}

func leftRows(ctx context.Context, s *site) (int, error) {
	return s.fillAndDelete(ctx, func(st *store.Store, key session.Key) error { return st.Sessions.Delete(ctx, key) })
}

// leftByRow deletes the row of the session and forgets the others.
func leftByRow(ctx context.Context, s *site) (int, error) {
	return s.fillAndDelete(ctx, func(*store.Store, session.Key) error {
		db, err := s.raw()
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(ctx, "DELETE FROM sessions")
		return err
	})
}
