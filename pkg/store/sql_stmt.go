package store

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
)

// A statement is a text that is ready on a connection or a pool. Its parameters
// are written $1, $2 and so on for every engine.
type statement struct {
	on querier
	// text is what the engine gets, when nothing was prepared.
	text     string
	prepared *sql.Stmt
	// order are the arguments in the order of their question marks, for an
	// engine that does not know numbers.
	order []int
}

// querier is a connection or a pool.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// prepareStatement makes a statement. The drivers of servers prepare by themselves what
// they see often; what is prepared here does not outlive its connection.
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

// ExecContext carries the statement out.
func (s *statement) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	if s.prepared != nil {
		return s.prepared.ExecContext(ctx, args...)
	}
	return s.on.ExecContext(ctx, s.text, s.orderArgs(args)...)
}

// QueryContext carries the statement out and returns its rows.
func (s *statement) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	if s.prepared != nil {
		return s.prepared.QueryContext(ctx, args...)
	}
	return s.on.QueryContext(ctx, s.text, s.orderArgs(args)...)
}

// QueryRowContext carries the statement out and returns its first row.
func (s *statement) QueryRowContext(ctx context.Context, args ...any) *sql.Row {
	if s.prepared != nil {
		return s.prepared.QueryRowContext(ctx, args...)
	}
	return s.on.QueryRowContext(ctx, s.text, s.orderArgs(args)...)
}

// Close gives back what was prepared.
func (s *statement) Close() error {
	if s == nil || s.prepared == nil {
		return nil
	}
	return s.prepared.Close()
}
