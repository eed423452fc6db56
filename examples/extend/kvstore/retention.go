package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// EarliestTime implements [store.RetentionRows].
func (b *Sessions) EarliestTime(_ context.Context, now time.Time) (time.Time, error) { return now, nil }

// FindExpired implements [store.RetentionRows]. Each session has an age row. If an examined session
// is active, its row moves to its last update.
func (b *Sessions) FindExpired(ctx context.Context, q store.ExpiryQuery) (page *store.ExpiredPage, err error) {
	var young []agedHead
	err = b.viewRows(ctx, func(tx rows) error {
		page, young, err = tx.findExpired(q)
		return err
	})
	if err != nil || len(young) == 0 || q.ReadOnly {
		return page, err
	}
	return page, b.updateRows(ctx, func(tx rows) error {
		for _, a := range young {
			if err := tx.moveAge(a); err != nil {
				return err
			}
		}
		return nil
	})
}

// An agedHead is a session with its age row.
type agedHead struct {
	key session.Key
	at  store.ExpiryCursor
}

func (tx rows) findExpired(q store.ExpiryQuery) (*store.ExpiredPage, []agedHead, error) {
	page, young, examined := &store.ExpiredPage{}, []agedHead(nil), 0
	from, to := ageKey(q.App, 0, 0), ageKey(q.App, q.Before.UnixMicro(), 0)
	if q.After != nil {
		from = ageKey(q.App, q.After.Active, q.After.ID+1)
	}
	err := tx.Scan(from, to, func(k, name []byte) error {
		at, ok := parseAgeKey(k)
		user, id, _ := strings.Cut(string(name), separator)
		key := session.Key{App: q.App, User: user, ID: id}
		h, err := tx.findHead(key)
		switch {
		case err != nil:
			return backend.WrapReadError(key, err)
		case !ok || h == nil || h.ID != at.ID:
			return backend.WrapReadError(key, backend.NewDamagedError(errMissing, "head"))
		case q.IsExpired(time.UnixMicro(h.Created), time.UnixMicro(h.Updated)):
			page.Sessions = append(page.Sessions, store.ExpiredSession{Key: key, ID: h.ID, Leased: h.Until > q.Now.UnixNano()})
		default:
			young = append(young, agedHead{key, at})
		}
		if examined++; examined == q.Limit {
			page.Next = &at
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return page, young, err
}

// moveAge moves a session's age row to its last update.
func (tx rows) moveAge(a agedHead) error {
	h, err := tx.findHead(a.key)
	if err != nil || h == nil || h.ID != a.at.ID || h.Active != a.at.Active {
		return err // another store has moved or deleted it
	}
	h.Active = max(h.Created, h.Updated)
	name := []byte(a.key.User + separator + a.key.ID)
	return errors.Join(
		tx.Delete(ageKey(a.key.App, a.at.Active, h.ID)),
		tx.Put(ageKey(a.key.App, h.Active, h.ID), name),
		tx.putHead(a.key, h),
	)
}

// A sweep is a [store.Sweep]'s row.
type sweep struct {
	Owner string `json:"owner"`
	Until int64  `json:"until"` // nanoseconds
}

// AcquireSweep implements [store.RetentionRows].
func (b *Sessions) AcquireSweep(ctx context.Context, s store.Sweep) (acquired bool, err error) {
	err = b.updateRows(ctx, func(tx rows) error {
		acquired = false
		text, err := tx.Get(sweepKey(s.App))
		if err != nil {
			return err
		}
		var last sweep
		if text != nil {
			if err := json.Unmarshal(text, &last); err != nil {
				return fmt.Errorf("sweep of app %s: %w", s.App, backend.NewDamagedError(err, "sweep"))
			}
		}
		isAhead := last.Until > s.Now.Add(2*s.Term).UnixNano() // the clock ran ahead
		if last.Owner != s.Owner && last.Until > s.Now.UnixNano() && !isAhead {
			return nil
		}
		if text, err = json.Marshal(sweep{s.Owner, s.Now.Add(s.Term).UnixNano()}); err != nil {
			return err
		}
		acquired = true
		return tx.Put(sweepKey(s.App), text)
	})
	return acquired, err
}
