package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// sqlOutcomes reads the outcomes that events have, and stores feedback.
type sqlOutcomes struct{ b *Database }

// outcomeHead is a session with its last event's number and outcome.
type outcomeHead struct {
	Row     sessionRow `gorm:"embedded"`
	Version int64      `gorm:"column:version"`
	Outcome string     `gorm:"column:outcome"`
}

// outcomesAtOnce is how many events a statement selects by number.
const outcomesAtOnce = 100

// ListOutcomes implements [store.OutcomeBackend]. It finds sessions by the index on their app, or on
// their app and user, and events by their primary key.
func (s sqlOutcomes) ListOutcomes(ctx context.Context, q store.OutcomeQuery) (all []*store.SessionOutcomes, err error) {
	err = s.b.retryLongRead(ctx, func(ctx context.Context) error {
		all, err = s.readPage(s.b.readers.WithContext(ctx), q)
		return err
	})
	return all, s.b.wrapError("reading outcomes", err)
}

func (s sqlOutcomes) readPage(db *gorm.DB, q store.OutcomeQuery) ([]*store.SessionOutcomes, error) {
	var heads []outcomeHead
	if err := s.queryPage(db, q).Find(&heads).Error; err != nil {
		return nil, err
	}
	all := make([]*store.SessionOutcomes, len(heads))
	byID := make(map[int64]*store.SessionOutcomes, len(heads))
	ids := make([]int64, len(heads))
	var earlier []outcomeRef
	for i, h := range heads {
		all[i] = &store.SessionOutcomes{
			Key: session.Key{App: h.Row.App, User: h.Row.User, ID: h.Row.Session}, ID: h.Row.ID, Created: microsToTime(h.Row.Created),
		}
		byID[h.Row.ID], ids[i] = all[i], h.Row.ID
		earlier = addOutcome(earlier, all[i], h.Version, h.Outcome)
	}
	for len(earlier) > 0 {
		var err error
		if earlier, err = readEarlier(db, byID, earlier); err != nil {
			return nil, err
		}
	}
	if s.b.outcome != outcomeExpr {
		return all, nil // an older schema has no feedback
	}
	return all, readScores(db, byID, ids)
}

// queryPage selects sessions in order of creation.
func (s sqlOutcomes) queryPage(db *gorm.DB, q store.OutcomeQuery) *gorm.DB {
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	db = db.Table("sessions s").Joins(lastEventSQL).Where("s.app_name = ? AND s.pk < ? AND s.pk > ?", q.App, q.Before, q.After)
	if q.User != "" {
		db = db.Where("s.user_id = ?", q.User)
	}
	order := "s.pk DESC"
	if q.Ascending {
		order = "s.pk"
	}
	return db.Select("s.pk, s.app_name, s.user_id, s.id, s.create_time, coalesce(h.seq, 0) AS version, coalesce(" + s.b.outcome + ", '') AS outcome").
		Order(order).Limit(q.Limit)
}

// An outcomeRef names the event with a session's earlier outcome.
type outcomeRef struct{ session, seq int64 }

// addOutcome adds the outcome of an event to a session, and the one before it to the list. Numbers only
// fall, so that the list ends also for damaged rows.
func addOutcome(earlier []outcomeRef, s *store.SessionOutcomes, seq int64, text string) []outcomeRef {
	previous := s.AddOutcome([]byte(text))
	if previous >= seq && previous > 0 {
		s.Damaged = true
		return earlier
	}
	if previous > 0 {
		earlier = append(earlier, outcomeRef{s.ID, previous})
	}
	return earlier
}

// readEarlier reads the earlier outcomes, and returns those before them.
func readEarlier(db *gorm.DB, byID map[int64]*store.SessionOutcomes, refs []outcomeRef) (earlier []outcomeRef, err error) {
	for len(refs) > 0 {
		some := refs[:min(len(refs), outcomesAtOnce)]
		refs = refs[len(some):]
		args := make([]any, 0, 2*len(some))
		for _, r := range some {
			args = append(args, r.session, r.seq)
		}
		where := strings.TrimSuffix(strings.Repeat("(e.session_pk = ? AND e.seq = ?) OR ", len(some)), " OR ")
		var rows []struct {
			Session int64  `gorm:"column:session_pk"`
			Seq     int64  `gorm:"column:seq"`
			Outcome string `gorm:"column:outcome"`
		}
		err := db.Table("events e").Select("e.session_pk, e.seq, coalesce(e.outcome, '') AS outcome").Where(where, args...).Find(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			earlier = addOutcome(earlier, byID[r.Session], r.Seq, r.Outcome)
		}
	}
	return earlier, nil
}

// readScores reads the sessions' feedback without comments.
func readScores(db *gorm.DB, byID map[int64]*store.SessionOutcomes, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	var rows []feedbackRow
	err := db.Select("session_pk", "invocation_id", "caller", "revision", "score", "store_time").Where("session_pk IN ?", ids).
		Order("session_pk, invocation_id, caller").Find(&rows).Error
	for _, r := range rows {
		s := byID[r.SessionID]
		s.Feedback = append(s.Feedback, r.toFeedback())
	}
	return err
}

func newFeedbackRow(pk int64, f *store.Feedback) *feedbackRow {
	return &feedbackRow{
		SessionID: pk, Invocation: f.Invocation, Caller: f.Caller, Revision: f.Revision, Score: int64(math.Round(f.Score * 1e6)),
		Comment: f.Comment, Time: f.Stored.UnixMicro(),
	}
}

func (r *feedbackRow) toFeedback() store.Feedback {
	return store.Feedback{
		Invocation: r.Invocation, Caller: r.Caller, Revision: r.Revision, Score: float64(r.Score) / 1e6, Comment: r.Comment, Stored: microsToTime(r.Time),
	}
}

// PutFeedback implements [store.OutcomeBackend].
func (s sqlOutcomes) PutFeedback(ctx context.Context, key session.Key, f store.Feedback, most int) error {
	return s.b.writerFor(key).runWrite(ctx, func(w *writer) error {
		var head sessionRow
		res := w.orm.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Limit(1).Find(&head)
		if res.Error == nil && res.RowsAffected == 0 {
			return backend.SessionNotFound(key.ID)
		}
		if res.Error != nil {
			return fmt.Errorf("storing feedback on session %s: %w", key.ID, res.Error)
		}
		row := newFeedbackRow(head.ID, &f)
		own := "session_pk = ? AND invocation_id = ? AND caller = ?"
		if err := w.orm.Where(own, row.SessionID, row.Invocation, row.Caller).Delete(&feedbackRow{}).Error; err != nil {
			return fmt.Errorf("storing feedback on session %s: %w", key.ID, err)
		}
		var callers int64
		err := w.orm.Model(&feedbackRow{}).Where("session_pk = ? AND invocation_id = ?", row.SessionID, row.Invocation).Count(&callers).Error
		if err == nil && callers >= int64(most) {
			return store.TooMuchFeedback(most)
		}
		if err == nil {
			err = w.orm.Omit("Session").Create(row).Error
		}
		if err != nil {
			return fmt.Errorf("storing feedback on session %s: %w", key.ID, err)
		}
		return nil
	})
}

// ListFeedback implements [store.OutcomeBackend].
func (s sqlOutcomes) ListFeedback(ctx context.Context, key session.Key) ([]store.Feedback, error) {
	var rows []feedbackRow
	err := s.b.retryRead(ctx, func(ctx context.Context) error {
		db := s.b.readers.WithContext(ctx)
		var head sessionRow
		if err := db.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Take(&head).Error; err != nil {
			return err
		}
		return db.Where("session_pk = ?", head.ID).Order("invocation_id, caller").Find(&rows).Error
	})
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, backend.SessionNotFound(key.ID)
	}
	if err != nil {
		return nil, s.b.wrapError("reading feedback on session "+key.ID, err)
	}
	all := make([]store.Feedback, len(rows))
	for i := range rows {
		all[i] = rows[i].toFeedback()
	}
	return all, nil
}
