package sqlstore

import (
	"fmt"

	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// provenanceColumn is the column of events that schema version 6 added: the
// output of [session.Provenance.Append], or null in rows written by an older
// version of agenthost.
type provenanceColumn struct {
	Provenance *string `gorm:"column:provenance;type:text"`
}

// TableName is for GORM.
func (provenanceColumn) TableName() string { return "events" }

// fullEventRow is an event row with the columns of all schema versions.
type fullEventRow struct {
	SessionID  int64   `gorm:"column:session_pk;primaryKey;autoIncrement:false"`
	Seq        int64   `gorm:"column:seq;primaryKey;autoIncrement:false"`
	ID         string  `gorm:"column:id"`
	Invocation string  `gorm:"column:invocation_id"`
	Time       int64   `gorm:"column:timestamp"`
	Event      string  `gorm:"column:event"`
	Provenance *string `gorm:"column:provenance"`
}

// TableName is for GORM.
func (fullEventRow) TableName() string { return "events" }

// provenance returns the argument of decodeEvent.
func (r *fullEventRow) provenance() []byte {
	if r.Provenance == nil {
		return nil
	}
	return []byte(*r.Provenance)
}

func addProvenance(db *gorm.DB, _ dialect) error {
	if db.Migrator().HasColumn(&provenanceColumn{}, "Provenance") {
		return nil // an interrupted migration has added it
	}
	if err := db.Migrator().AddColumn(&provenanceColumn{}, "Provenance"); err != nil {
		return fmt.Errorf("adding column provenance: %w", err)
	}
	return nil
}

// decodeEvent decodes an event and its provenance, which is empty in rows
// written by an older version.
func decodeEvent(text []byte, seq int64, provenance []byte) (*session.Event, error) {
	ev := &session.Event{}
	err := ev.UnmarshalJSON(text)
	legacy := len(provenance) == 0
	if err == nil && !legacy {
		ev.Provenance, err = session.DecodeProvenance(provenance)
	}
	if err != nil {
		return nil, codec.NewDamagedError(err, "event %d", seq)
	}
	if legacy {
		ev.MoveLegacyProvenance()
	}
	ev.Seq = seq
	return ev, nil
}
