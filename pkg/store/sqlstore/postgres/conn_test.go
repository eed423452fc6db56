package postgres

import "testing"

// The schema name qualifies tables and nothing else.
func TestQualifiedStatements(t *testing.T) {
	q := newSchemaQualifier(`a"b'$1`, []string{"sessions", "events", "states"})
	const schema = `"a""b'$1"`
	for _, tt := range []struct{ query, want string }{
		{"SELECT 1", "SELECT 1"},
		{"SELECT s.pk FROM sessions s", "SELECT s.pk FROM " + schema + ".sessions s"},
		{"select * from \"events\" join\n sessions on events.pk = 1", "select * from " + schema + ".\"events\" join\n " + schema + ".sessions on " + schema + ".events.pk = 1"},
		{"UPDATE states SET value = 'from sessions_old'", "UPDATE " + schema + ".states SET value = 'from sessions_old'"},
		{"FROM sessions_of_app", "FROM sessions_of_app"},
		{"WHERE table_schema = CURRENT_SCHEMA()", "WHERE table_schema = 'a\"b''$1'"},
		{`CREATE TABLE "events" (a REFERENCES "sessions"("pk"))`, "CREATE TABLE " + schema + `."events" (a REFERENCES ` + schema + `."sessions"("pk"))`},
	} {
		for range 2 { // the second time it is remembered
			if got := q.qualifyTables(tt.query); got != tt.want {
				t.Errorf("qualify(%q) =\n%s, want\n%s", tt.query, got, tt.want)
			}
		}
	}
}
