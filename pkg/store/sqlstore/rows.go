package sqlstore

import (
	"cmp"
	"strings"

	"agenthost/pkg/session"
)

// The tables. Ids compare byte by byte: a dialect with another default sets
// column types or table options accordingly. Times are
// microseconds since the epoch.

// sessionRow is a session. Its version and last update are those of its last
// event.
type sessionRow struct {
	ID      int64  `gorm:"column:pk;primaryKey;autoIncrement"`
	App     string `gorm:"column:app_name;size:128;not null;uniqueIndex:sessions_key,priority:1"`
	User    string `gorm:"column:user_id;size:255;not null;uniqueIndex:sessions_key,priority:2"`
	Session string `gorm:"column:id;size:128;not null;uniqueIndex:sessions_key,priority:3"`
	Created int64  `gorm:"column:create_time;not null"`
	// Initial is the session's own state at its creation, as a JSON object.
	Initial string `gorm:"column:initial;type:text;not null"`
}

// TableName is for GORM.
func (sessionRow) TableName() string { return "sessions" }

// eventRow is one event, ordered by Seq. The time is only for filters and has
// no index: it grows with Seq unless the clock was set back.
type eventRow struct {
	SessionID  int64      `gorm:"column:session_pk;primaryKey;autoIncrement:false;not null;uniqueIndex:events_id,priority:1"`
	Seq        int64      `gorm:"column:seq;primaryKey;autoIncrement:false;not null"`
	ID         string     `gorm:"column:id;size:128;not null;uniqueIndex:events_id,priority:2"`
	Invocation string     `gorm:"column:invocation_id;size:128;not null"`
	Time       int64      `gorm:"column:timestamp;not null"`
	Event      string     `gorm:"column:event;type:text;not null"`
	Session    sessionRow `gorm:"foreignKey:SessionID;references:ID;constraint:OnDelete:CASCADE"`
}

// TableName is for GORM.
func (eventRow) TableName() string { return "events" }

// stateRow is one state key. Without a session it belongs to the user, without
// a user to the app; the key has no prefix.
type stateRow struct {
	App     string `gorm:"column:app_name;size:128;primaryKey"`
	User    string `gorm:"column:user_id;size:255;primaryKey"`
	Session string `gorm:"column:session_id;size:128;primaryKey"`
	Key     string `gorm:"column:key;size:255;primaryKey"`
	Value   string `gorm:"column:value;type:text;not null"`
}

// TableName is for GORM.
func (stateRow) TableName() string { return "states" }

// migrationRow is an applied migration.
type migrationRow struct {
	Version int64  `gorm:"column:version;primaryKey;autoIncrement:false"`
	Name    string `gorm:"column:name;size:128;not null"`
	Applied int64  `gorm:"column:apply_time;not null"`
}

// TableName is for GORM.
func (migrationRow) TableName() string { return "schema_migrations" }

// compare defines the order in which rows are written in every batch.
func (r *stateRow) compare(o *stateRow) int {
	return cmp.Or(
		strings.Compare(r.App, o.App), strings.Compare(r.User, o.User),
		strings.Compare(r.Session, o.Session), strings.Compare(r.Key, o.Key),
	)
}

func compareKeys(a, b session.Key) int {
	return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.User, b.User), strings.Compare(a.ID, b.ID))
}
