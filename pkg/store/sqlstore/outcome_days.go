package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Statements that lock a session and a day until the transaction ends.
const (
	lockSessionSQL = "SELECT s.pk FROM sessions s WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?"
	lockDaySQL     = "SELECT d.app_name, d.day, d.totals FROM outcome_days d WHERE d.app_name = ? AND d.day = ?"
)

// DeleteCounted implements [store.OutcomeBackend]. It locks the session first, so that a concurrent append is
// either counted or finds no session.
func (s sqlOutcomes) DeleteCounted(ctx context.Context, key session.Key, r store.OutcomeRetention) error {
	return s.b.writerFor(key).runLongWrite(ctx, func(w *writer) error {
		var heads []sessionRow
		if err := w.orm.Raw(lockSessionSQL+w.dialect.lockRow, key.App, key.User, key.ID).Scan(&heads).Error; err != nil {
			return fmt.Errorf("deleting session %s: %w", key.ID, err)
		}
		if len(heads) == 0 {
			return nil // deleted before, also by an earlier attempt of this job
		}
		q := store.OutcomeQuery{App: key.App, After: heads[0].ID - 1, Before: heads[0].ID + 1, Limit: 1}
		page, err := s.readPage(w.orm, q)
		if err != nil {
			return fmt.Errorf("reading outcomes of session %s: %w", key.ID, err)
		}
		for _, one := range page {
			for _, day := range one.CountDays(r) {
				if err := w.addOutcomeDay(key.App, day); err != nil {
					return fmt.Errorf("keeping outcomes of session %s: %w", key.ID, err)
				}
			}
		}
		return w.deleteSession(key)
	})
}

// lockAttempts is how often a row is inserted that another transaction deletes before it is locked.
const lockAttempts = 3

// addOutcomeDay adds counts to the row of their day.
func (w *writer) addOutcomeDay(app string, day *store.OutcomeDay) error {
	for range lockAttempts {
		if err := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&outcomeDayRow{App: app, Day: day.Day, Totals: "[]"}).Error; err != nil {
			return err
		}
		var rows []outcomeDayRow
		if err := w.orm.Raw(lockDaySQL+w.dialect.lockRow, app, day.Day).Scan(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		stored := rows[0].toOutcomeDay()
		if stored.Damaged {
			w.logger.Error("outcomes of deleted sessions are damaged and count from 0", "app", app, "day", day.Day)
		}
		stored.AddDay(day)
		text, err := stored.Encode()
		if err != nil {
			return err
		}
		return w.orm.Model(&outcomeDayRow{}).Where("app_name = ? AND day = ?", app, day.Day).Update("totals", text).Error
	}
	return errors.New("the row of the day is deleted again and again")
}

func (r *outcomeDayRow) toOutcomeDay() *store.OutcomeDay {
	d := &store.OutcomeDay{Day: r.Day}
	_ = d.Decode([]byte(r.Totals)) // sets Damaged
	return d
}

// ListOutcomeDays implements [store.OutcomeBackend].
func (s sqlOutcomes) ListOutcomeDays(ctx context.Context, q store.OutcomeDayQuery) ([]*store.OutcomeDay, error) {
	if s.b.noOutcomeDays {
		return nil, nil
	}
	var rows []outcomeDayRow
	err := s.b.retryLongRead(ctx, func(ctx context.Context) error {
		return s.b.readers.WithContext(ctx).Where("app_name = ? AND day >= ? AND day < ?", q.App, q.From, q.Before).
			Order("day DESC").Limit(q.Limit).Find(&rows).Error
	})
	if err != nil {
		return nil, s.b.wrapError("reading outcomes of deleted sessions", err)
	}
	page := make([]*store.OutcomeDay, len(rows))
	for i := range rows {
		page[i] = rows[i].toOutcomeDay()
	}
	return page, nil
}

// DeleteOutcomeDays implements [store.OutcomeBackend].
func (s sqlOutcomes) DeleteOutcomeDays(ctx context.Context, app string, before int64) (n int, err error) {
	err = s.b.writerFor(session.Key{App: app}).runLongWrite(ctx, func(w *writer) error {
		res := w.orm.Where("app_name = ? AND day < ?", app, before).Delete(&outcomeDayRow{})
		n = int(res.RowsAffected)
		return res.Error
	})
	return n, s.b.wrapError("deleting outcomes of deleted sessions", err)
}
