package sqlstore

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
)

// A statement is an SQL statement on a connection or a pool. Parameters are
// written $1, $2 and so on for every engine.
type statement struct {
	on querier
	// text is sent to the engine if the statement is not prepared.
	text     string
	prepared *sql.Stmt
	// order maps question marks to arguments, for an engine without numbered
	// parameters.
	order []int
}

// querier is a connection or a pool.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// prepareStatement creates a statement. The drivers of servers prepare frequent
// statements themselves; a statement prepared here lives as long as its
// connection.
func (d dialect) prepareStatement(ctx context.Context, on querier, text string) (*statement, error) {
	s := &statement{on: on, text: text}
	if d.questionMarks {
		s.text, s.order = withQuestionMarks(text)
	}
	if d.server != nil {
		return s, nil
	}
	var err error
	s.prepared, err = on.PrepareContext(ctx, s.text)
	return s, err
}

func withQuestionMarks(text string) (string, []int) {
	var order []int
	text = regexp.MustCompile(`\$\d+`).ReplaceAllStringFunc(text, func(mark string) string {
		n, _ := strconv.Atoi(mark[1:])
		order = append(order, n-1)
		return "?"
	})
	return text, order
}

func (s *statement) orderArgs(given []any) []any {
	if s.order == nil {
		return given
	}
	args := make([]any, len(s.order))
	for i, n := range s.order {
		args[i] = given[n]
	}
	return args
}

// ExecContext executes the statement.
func (s *statement) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	if s.prepared != nil {
		return s.prepared.ExecContext(ctx, args...)
	}
	return s.on.ExecContext(ctx, s.text, s.orderArgs(args)...)
}

// QueryContext executes the statement and returns its rows.
func (s *statement) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	if s.prepared != nil {
		return s.prepared.QueryContext(ctx, args...)
	}
	return s.on.QueryContext(ctx, s.text, s.orderArgs(args)...)
}

// QueryRowContext executes the statement and returns its first row.
func (s *statement) QueryRowContext(ctx context.Context, args ...any) *sql.Row {
	if s.prepared != nil {
		return s.prepared.QueryRowContext(ctx, args...)
	}
	return s.on.QueryRowContext(ctx, s.text, s.orderArgs(args)...)
}

// Close closes the prepared statement.
func (s *statement) Close() error {
	if s == nil || s.prepared == nil {
		return nil
	}
	return s.prepared.Close()
}
