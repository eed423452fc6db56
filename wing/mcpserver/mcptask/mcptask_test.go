package mcptask

import (
	"encoding/json"
	"testing"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
)

// An ID has three parts, of which the session may have dots. A state has the protocol's members.
func TestID(t *testing.T) {
	id := ID{"e-1", "desk", "my.session"}
	if got, ok := ParseID(id.String()); !ok || got != id {
		t.Errorf("%s: %v, %v", id, got, ok)
	}
	message := &session.Event{InvocationID: "e-1", Author: session.UserAuthor, Timestamp: time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)}
	message.Content = model.UserText("hi")
	turn := task.FindTurn([]*session.Event{message}, "e-1")
	text, err := json.Marshal(&Result{ResultType: TypeTask, State: NewState(id, turn, Working)})
	want := `{"resultType":"task","taskId":"e-1.desk.my.session","status":"working","createdAt":"2026-11-27T10:00:00Z","lastUpdatedAt":"2026-11-27T10:00:00Z","ttlMs":null,"pollIntervalMs":1000}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v\nwant %s", text, err, want)
	}
	if text, err = json.Marshal(&Result{ResultType: TypeComplete}); err != nil || string(text) != `{"resultType":"complete"}` {
		t.Errorf("%s, %v", text, err)
	}
}
