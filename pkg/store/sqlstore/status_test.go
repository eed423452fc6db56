package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"agenthost/internal/testdb"
)

// On a server, the status has the engine's estimate for a large table, and counts small ones. Exact counts all.
func TestStatusEstimates(t *testing.T) {
	eachDirectServer(t, func(t *testing.T, be testBackend) {
		url := be.url(t)
		s := openStore(t, url, nil)
		sess := createSession(t, s, alice, nil)
		appendEvent(t, s, sess, textEvent("user", "hi"))
		const rows = EstimateAbove * 2 // InnoDB estimates from 20 pages, a fifth or more off
		key, analyze := `"key"`, "ANALYZE states"
		if strings.HasPrefix(url, "mysql") {
			key, analyze = "`key`", "ANALYZE TABLE states"
		}
		for from := 0; from < rows; from += 4000 {
			values := make([]string, 4000)
			for i := range values {
				values[i] = fmt.Sprintf("('app', 'many', '', 'k%d', '1')", from+i)
			}
			if _, err := s.db.writes.ExecContext(t.Context(), "INSERT INTO states (app_name, user_id, session_id, "+key+", value) VALUES "+strings.Join(values, ", ")); err != nil {
				t.Fatal(err)
			}
		}
		mustSucceed(t, "analyzing", testdb.Exec(t.Context(), url, analyze))
		status, err := allEngines().ReadStatus(t.Context(), url, false)
		if err != nil {
			t.Fatal(err)
		}
		if !status.Estimated || status.StateKeys < rows/2 || status.StateKeys > rows*3/2 || status.Sessions != 1 || status.Events != 1 || status.LastEvent == nil {
			t.Errorf("estimated status %+v", status)
		}
		if status, err = allEngines().ReadStatus(t.Context(), url, true); err != nil || status.Estimated || status.StateKeys != rows {
			t.Errorf("exact status %+v, %v", status, err)
		}
	})
}
