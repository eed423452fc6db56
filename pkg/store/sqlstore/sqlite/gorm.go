package sqlite

import (
	"database/sql"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"
)

// A dialector lets GORM use a modernc.org/sqlite pool. GORM's own dialector links a second SQLite,
// the one in C. This one has what the schema and the statements of sqlstore use: tables, columns
// and indexes are created and found, and never changed or dropped.
type dialector struct{ pool *sql.DB }

// Name is the engine's name.
func (dialector) Name() string { return "sqlite" }

// Initialize sets the pool and the statement clauses.
func (d dialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{
		CreateClauses:        []string{"INSERT", "VALUES", "ON CONFLICT", "RETURNING"},
		UpdateClauses:        []string{"UPDATE", "SET", "FROM", "WHERE", "RETURNING"},
		DeleteClauses:        []string{"DELETE", "FROM", "WHERE", "RETURNING"},
		LastInsertIDReversed: true,
	})
	db.ClauseBuilders["LIMIT"] = buildLimit
	return nil
}

// buildLimit writes limits as numbers: SQLite plans a statement by them, and has no
// OFFSET without LIMIT.
func buildLimit(c clause.Clause, b clause.Builder) {
	l, ok := c.Expression.(clause.Limit)
	if !ok || l.Limit == nil && l.Offset <= 0 {
		return
	}
	n := -1
	if l.Limit != nil {
		n = *l.Limit
	}
	text := "LIMIT " + strconv.Itoa(n)
	if l.Offset > 0 {
		text += " OFFSET " + strconv.Itoa(l.Offset)
	}
	_, _ = b.WriteString(text) // to memory
}

// Migrator creates tables, and their indexes in separate statements.
func (d dialector) Migrator(db *gorm.DB) gorm.Migrator {
	return tableFinder{migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d, CreateIndexAfterCreateTable: true}}}
}

// DataTypeOf returns a column's type, one that STRICT tables allow.
func (dialector) DataTypeOf(f *schema.Field) string {
	switch f.DataType {
	case schema.Int, schema.Uint:
		if f.AutoIncrement {
			return "integer PRIMARY KEY AUTOINCREMENT"
		}
		return "integer"
	case schema.String:
		return "text"
	case schema.Bytes:
		return "blob"
	default:
		return string(f.DataType)
	}
}

// DefaultValueOf returns a column's value that an INSERT leaves to the engine: NULL, for which it
// numbers rows.
func (dialector) DefaultValueOf(*schema.Field) clause.Expression {
	return clause.Expr{SQL: "NULL"}
}

// BindVarTo writes a parameter's placeholder.
func (dialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { _ = w.WriteByte('?') }

// QuoteTo writes an identifier, with dots between its parts.
func (dialector) QuoteTo(w clause.Writer, name string) {
	for i, part := range strings.Split(name, ".") {
		if i > 0 {
			_ = w.WriteByte('.')
		}
		_, _ = w.WriteString("`" + strings.ReplaceAll(part, "`", "``") + "`")
	}
}

// Explain returns a statement with its values, for logs.
func (dialector) Explain(text string, vars ...any) string {
	return logger.ExplainSQL(text, nil, `"`, vars...)
}

// A tableFinder finds tables, columns and indexes in SQLite's own tables.
type tableFinder struct{ migrator.Migrator }

// HasTable reports whether a table exists.
func (m tableFinder) HasTable(row any) bool {
	return m.isFound(row, func(stmt *gorm.Statement) (string, []any) {
		return "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", []any{stmt.Table}
	})
}

// HasColumn reports whether a table has a column, which is named by its field or its name.
func (m tableFinder) HasColumn(row any, name string) bool {
	return m.isFound(row, func(stmt *gorm.Statement) (string, []any) {
		if f := stmt.Schema.LookUpField(name); f != nil {
			name = f.DBName
		}
		return "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?", []any{stmt.Table, name}
	})
}

// HasIndex reports whether a table has an index.
func (m tableFinder) HasIndex(row any, name string) bool {
	return m.isFound(row, func(stmt *gorm.Statement) (string, []any) {
		return "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND name = ?", []any{stmt.Table, name}
	})
}

// isFound reports whether a count for a row type's table, or for a name, is above 0. Like GORM's
// migrators it is false if the query fails; the statement that follows fails then, too.
func (m tableFinder) isFound(row any, query func(*gorm.Statement) (string, []any)) bool {
	var n int
	err := m.RunWithValue(row, func(stmt *gorm.Statement) error {
		text, args := query(stmt)
		return m.DB.Raw(text, args...).Row().Scan(&n)
	})
	return err == nil && n > 0
}
