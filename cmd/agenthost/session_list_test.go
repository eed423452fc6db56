package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agenthost/internal/command"
	"agenthost/pkg/session"
)

// A list of several pages is one table with one line of titles, or one JSON array. An empty one is an empty array.
func TestSessionListPages(t *testing.T) {
	page := func(ids ...string) (all []*session.Session) {
		for _, id := range ids {
			all = append(all, session.New(session.Session{Key: session.Key{App: "a", User: "u<&>", ID: id}, History: session.NewHistory(nil), LastUpdate: time.Unix(1, 0)}, nil))
		}
		return all
	}
	var table, list, none bytes.Buffer
	for _, p := range []*sessionListPrinter{{env: command.Env{Out: &table}}, {env: command.Env{Out: &list}, json: true}} {
		for _, some := range [][]*session.Session{page("one", "two"), page("three")} {
			if err := p.printPage(some); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.endList(); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(table.String(), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "SESSION") || !strings.HasPrefix(lines[3], "three") {
		t.Errorf("the table is\n%s", &table)
	}
	var heads []struct{ ID, UserID string }
	if err := json.Unmarshal(list.Bytes(), &heads); err != nil || len(heads) != 3 || heads[2].ID != "three" || !strings.Contains(list.String(), `"userId": "u<&>"`) {
		t.Errorf("the array is %s: %v", &list, err)
	}
	if err := (&sessionListPrinter{env: command.Env{Out: &none}, json: true}).endList(); err != nil || none.String() != "[]\n" {
		t.Errorf("an empty list is %q, %v", &none, err)
	}
}
