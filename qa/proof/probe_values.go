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

// throughStore appends events to a session, reopens a durable store, and reads the
// session.
func (s *sandbox) throughStore(ctx context.Context, events ...*session.Event) (*session.Session, error) {
	st, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	key := sessionKey(0, 0)
	sess, err := st.Sessions.Create(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		if err := st.Sessions.Append(ctx, sess, ev); err != nil {
			return nil, err
		}
	}
	if s.isDurable() {
		if err := st.Close(); err != nil {
			return nil, err
		}
		if st, err = s.openStore(ctx); err != nil {
			return nil, err
		}
	}
	return st.Sessions.Get(ctx, key, nil)
}

const simultaneousCount = 40

// simultaneousEvents returns events with the same timestamp and descending IDs, and one
// event with an earlier timestamp.
func simultaneousEvents() []*session.Event {
	at := time.UnixMicro(1_800_000_000_000_000)
	var events []*session.Event
	for i := range simultaneousCount + 1 {
		ev := textEvent("user", fmt.Sprint(i))
		ev.ID, ev.Timestamp = fmt.Sprintf("event-%02d", simultaneousCount-i), at
		if i == simultaneousCount {
			ev.Timestamp = at.Add(-time.Hour)
		}
		events = append(events, ev)
	}
	return events
}

func countMisplacedEvents(ctx context.Context, s *sandbox) (int, error) {
	sess, err := s.throughStore(ctx, simultaneousEvents()...)
	if err != nil {
		return 0, err
	}
	return countMisplaced(sess.Events()), nil
}

// countMisplacedByTime orders events by timestamp and ID.
func countMisplacedByTime(ctx context.Context, s *sandbox) (int, error) {
	sess, err := s.throughStore(ctx, simultaneousEvents()...)
	if err != nil {
		return 0, err
	}
	events := slices.SortedFunc(slices.Values(sess.Events()), func(a, b *session.Event) int {
		if c := a.Timestamp.Compare(b.Timestamp); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return countMisplaced(events), nil
}

func countMisplaced(events []*session.Event) int {
	n := simultaneousCount + 1 - len(events)
	for i, ev := range events {
		if ev.Text() != fmt.Sprint(i) {
			n++
		}
	}
	return n
}

// edgeNumbers are numbers that float64 or a database may change.
func edgeNumbers() map[string]any {
	return map[string]any{
		"above": int64(1<<53 + 1), "largest": int64(1<<63 - 1), "smallest": int64(-1 << 63),
		"large": json.Number("123456789012345678901234567890"), "one": 1.0, "tiny": 5e-324, "tenth": 0.1,
		"list": []any{int64(1<<53 + 3), map[string]any{"in": int64(1<<60 + 1)}},
	}
}

// numberEvent returns an event with the numbers in every state scope and in a call.
func numberEvent() (*session.Event, error) {
	delta := map[string]any{}
	for k, v := range edgeNumbers() {
		delta[k], delta["user:"+k], delta["app:"+k] = v, v, v
	}
	ev := stateEvent(delta)
	const call = `{"id":"numbers","author":"agent","content":{"role":"model","parts":[{"functionCall":{"id":"c","name":"f",
 "args":{"above":9007199254740993,"largest":9223372036854775807,"one":1.0}}}]},"customMetadata":{"above":9007199254740993}}`
	var decoded session.Event
	if err := json.Unmarshal([]byte(call), &decoded); err != nil {
		return nil, err
	}
	ev.Content, ev.CustomMetadata = decoded.Content, decoded.CustomMetadata
	return ev, nil
}

func countChangedNumbers(ctx context.Context, s *sandbox) (int, error) {
	state, text, want, err := s.roundTripNumbers(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for k, v := range edgeNumbers() {
		for _, prefix := range []string{"", "user:", "app:"} {
			if !reflect.DeepEqual(state[prefix+k], v) {
				n++
			}
		}
	}
	return n + len(findDifferences("", want, text)), nil
}

// countChangedByFloat decodes numbers as float64.
func countChangedByFloat(ctx context.Context, s *sandbox) (int, error) {
	state, _, _, err := s.roundTripNumbers(ctx)
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
	for k, v := range edgeNumbers() {
		if !reflect.DeepEqual(read[k], v) {
			n++
		}
	}
	return n, nil
}

// roundTripNumbers returns the stored state, the stored event and the event as it was
// appended.
func (s *sandbox) roundTripNumbers(ctx context.Context) (state map[string]any, event, want any, err error) {
	ev, err := numberEvent()
	if err != nil {
		return nil, nil, nil, err
	}
	sess, err := s.throughStore(ctx, ev)
	if err != nil {
		return nil, nil, nil, err
	}
	if want, err = eventTree(ev); err != nil {
		return nil, nil, nil, err
	}
	event, err = eventTree(sess.Events()[0])
	return sess.State.All(), event, want, err
}

// eventTree returns an event's JSON form with exact numbers.
func eventTree(ev *session.Event) (any, error) {
	text, err := session.AppendEvent(nil, ev)
	if err != nil {
		return nil, err
	}
	return parseTree(string(text))
}

func parseTree(text string) (any, error) {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

// findDifferences returns the paths to written values that were not read back.
func findDifferences(at string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		var all []string
		for k, v := range w {
			all = append(all, findDifferences(at+"."+k, v, g[k])...)
		}
		return all
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{at}
		}
		var all []string
		for i, v := range w {
			all = append(all, findDifferences(fmt.Sprintf("%s[%d]", at, i), v, g[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(want, got) {
		return []string{at}
	}
	return nil
}

func countLostFields(ctx context.Context, s *sandbox) (int, error) {
	n := 0
	for i, text := range documentedEvents() {
		want, err := parseTree(text)
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
		missing := findDifferences("", want, got)
		if len(missing) > 0 {
			fmt.Fprintln(s.progress, "lost fields:", strings.Join(missing, " "))
		}
		n += len(missing)
	}
	return n, nil
}

// fieldsOf stores an event in its own database and returns its JSON form.
func (s *sandbox) fieldsOf(ctx context.Context, ev *session.Event) (got any, err error) {
	_, err = s.runOnFresh(ctx, s.backend, func(ctx context.Context, s *sandbox) (int, error) {
		sess, err := s.throughStore(ctx, ev)
		if err == nil {
			got, err = eventTree(sess.Events()[0])
		}
		return 0, err
	})
	return got, err
}

// countLostByColumns removes the fields for which adk-go has no column.
func countLostByColumns(context.Context, *sandbox) (int, error) {
	n := 0
	for _, text := range documentedEvents() {
		want, err := parseTree(text)
		if err != nil {
			return 0, err
		}
		got, _ := parseTree(text)
		for _, field := range []string{"finishReason", "avgLogprobs", "logprobsResult", "inputTranscription", "outputTranscription", "modelVersion"} {
			delete(got.(map[string]any), field)
		}
		n += len(findDifferences("", want, got))
	}
	return n, nil
}

// fillAndDelete creates a session with events and state, calls remove, and counts what
// remains.
func (s *sandbox) fillAndDelete(ctx context.Context, remove func(*store.Store, session.Key) error) (left int, err error) {
	st, err := s.openStore(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	key := sessionKey(0, 0)
	sess, err := st.Sessions.Create(ctx, key, map[string]any{"initial": 1})
	for i := 0; i < 10 && err == nil; i++ {
		err = st.Sessions.Append(ctx, sess, stateEvent(map[string]any{"own": i}))
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
	again, err := st.Sessions.Create(ctx, key, nil) // its state and events must not return
	if err != nil {
		return 0, err
	}
	return rows + again.History.Len() + len(again.State.All()), nil
}

// rowsOf counts the rows that the only session has.
func (s *sandbox) rowsOf(ctx context.Context, key session.Key) (rows int, err error) {
	if !s.isDurable() {
		return 0, nil
	}
	db, err := s.openSQL()
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

func countLeftRows(ctx context.Context, s *sandbox) (int, error) {
	return s.fillAndDelete(ctx, func(st *store.Store, key session.Key) error { return st.Sessions.Delete(ctx, key) })
}

// countLeftByRow deletes only the session's row.
func countLeftByRow(ctx context.Context, s *sandbox) (int, error) {
	return s.fillAndDelete(ctx, func(*store.Store, session.Key) error {
		db, err := s.openSQL()
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(ctx, "DELETE FROM sessions")
		return err
	})
}
